// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a program says of a communicator, in the struct of whichever version of NCCL it was built with.
#pragma once

#include "hocket/hocket.h"
#include "nccl/nccl.h"

namespace hocket::nccl {

// How many bytes of the struct hold members: versions before grew into the padding of the ones before them.
size_t known_bytes(size_t size, unsigned version);

// False: the struct is not one that NCCL_CONFIG_INITIALIZER began.
bool read_config(const ncclConfig_t& given, hocketConfig_t& config);

}  // namespace hocket::nccl
