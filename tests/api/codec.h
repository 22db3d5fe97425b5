// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A codec that lives as long as its scope.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "hocket/hocket.h"

namespace hocket::test {

class Codec {
 public:
  explicit Codec(const char* specification) {
    EXPECT_EQ(hocketCodecCreate(&handle_, specification), hocketSuccess) << hocketGetLastError(nullptr);
  }
  ~Codec() { EXPECT_EQ(hocketCodecDestroy(handle_), hocketSuccess); }
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  operator hocketCodec_t() const { return handle_; }  // NOLINT(google-explicit-constructor)

  std::string save() const {
    size_t bytes = 0;
    EXPECT_EQ(hocketCodecSaveState(handle_, nullptr, &bytes), hocketSuccess);
    std::string state(bytes, '\0');
    EXPECT_EQ(hocketCodecSaveState(handle_, state.data(), &bytes), hocketSuccess);
    return state;
  }

 private:
  hocketCodec_t handle_ = nullptr;
};

}  // namespace hocket::test
