// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes between processes of one host: a ring in shared memory, passed as a handle.
#pragma once

#include "transports/pipe.h"

namespace hocket {

const Transport& shm_transport();

}  // namespace hocket
