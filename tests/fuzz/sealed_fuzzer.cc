// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Arbitrary bytes to somebody who opens sealed records: nothing of them is ever delivered.
#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "comm/sealed_socket.h"
#include "tests/fuzz/scripted_socket.h"

namespace {

std::unique_ptr<hocket::Socket> stranger(const uint8_t* data, size_t size) {
  using hocket::ScriptedSocket;
  return std::make_unique<ScriptedSocket>(std::string(data, data + size), 700, hocket::kNoHandle,
                                          ScriptedSocket::Then::kEnd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string key(hocket::SealedSocket::kKeyBytes, 'k');
  hocket::SealedSocket socket(stranger(data, size), key, key);
  std::array<std::byte, 4096> into;
  for (;;) {
    const hocket::Result<size_t> got = socket.receive(into);
    if (!got.ok()) return 0;
    if (*got != 0) std::abort();
  }
}
