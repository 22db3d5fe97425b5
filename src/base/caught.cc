// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "base/caught.h"

namespace hocket {
namespace {

const Status kOutOfMemory(Code::kSystem, "out of memory");

}  // namespace

const Status& out_of_memory() { return kOutOfMemory; }

}  // namespace hocket
