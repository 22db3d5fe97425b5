// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes between hosts: one stream socket for those of a lane, which go both ways.
#pragma once

#include "transports/pipe.h"

namespace hocket {

const Transport& tcp_transport();

}  // namespace hocket
