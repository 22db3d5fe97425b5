// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A stranger who knocks with arbitrary bytes, and one who answers with them: the handshake ends or waits for more,
// never succeeds without the key, and never reads far beyond what it needs.
#include <cstdlib>
#include <memory>
#include <string>

#include "comm/handshake.h"
#include "tests/fuzz/scripted_socket.h"

namespace {

std::unique_ptr<hocket::Socket> stranger(const uint8_t* data, size_t size) {
  using hocket::ScriptedSocket;
  return std::make_unique<ScriptedSocket>(std::string(data, data + size), 7, hocket::kNoHandle,
                                          ScriptedSocket::Then::kEnd);
}

void run(hocket::Handshake& handshake) {
  constexpr int kEnough = 10000;
  for (int i = 0; i < kEnough && handshake.state() == hocket::Handshake::State::kPending; ++i) handshake.advance();
  if (handshake.state() == hocket::Handshake::State::kPending) std::abort();  // the stream has ended, so must we
  if (handshake.state() == hocket::Handshake::State::kDone) std::abort();     // nobody knows the key
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint32_t kVersion = 100;
  const std::string key(16, 'k');
  const std::string nonce(16, 'n');
  hocket::AcceptingHandshake accepting(
      stranger(data, size), kVersion,
      [&](const hocket::Hello&) { return hocket::Admission{hocket::Refusal::kNone, key}; },
      [](const hocket::Hello&) { return hocket::Refusal::kNone; }, nonce);
  run(accepting);

  hocket::Hello hello;
  hello.id = std::string(16, 'i');
  hocket::DialingHandshake dialing(stranger(data, size), kVersion, hello, key, nonce);
  run(dialing);
  return 0;
}
