// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A library of this system that is opened when it is needed, and stays open for as long as the process lives: one
// binary runs with and without it.
#pragma once

#include "base/status.h"

namespace hocket {

class Library {
 public:
  // Fails, with the linker's reason, where it cannot be opened.
  static Result<Library> open(const char* name);

  template <typename Function>
  void load(const char* name, Function* into) {
    *into = reinterpret_cast<Function>(find(name));
    if (*into == nullptr && missing_ == nullptr) missing_ = name;
  }
  // Null where the library is too old for it, and does without.
  template <typename Function>
  void load_if_there(const char* name, Function* into) {
    *into = reinterpret_cast<Function>(find(name));
  }
  // Of all that has to be there, the first that is missing is the reason of the failure.
  Status complete() const;

 private:
  Library(const char* name, void* handle) : name_(name), handle_(handle) {}
  void* find(const char* name) const;

  const char* name_;
  void* handle_;
  const char* missing_ = nullptr;
};

}  // namespace hocket
