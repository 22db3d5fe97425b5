// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace hocket {

Result<Library> Library::open(const char* name) {
  void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status(Code::kSystem, fmt::format("cannot open {}: {}", name, ::dlerror()));
  return Library(name, handle);
}

void* Library::find(const char* name) const { return ::dlsym(handle_, name); }

Status Library::complete() const {
  if (missing_ == nullptr) return {};
  return Status(Code::kSystem, fmt::format("{} is too old: it has no {}", name_, missing_));
}

}  // namespace hocket
