// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes between hosts: one stream socket each.
#pragma once

#include "transports/pipe.h"

namespace hocket {

const Transport& tcp_transport();

}  // namespace hocket
