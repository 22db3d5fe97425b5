// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes between ranks of one process (threads): a ring in this process' memory.
#pragma once

#include "transports/pipe.h"

namespace hocket {

const Transport& local_transport();

}  // namespace hocket
