// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Over OpenSSL's one-shot functions, and the kernel's random numbers.
#include "comm/handshake_crypto.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace hocket {
namespace {

// Our threads may still be at work when the process ends: libcrypto's exit handler would pull its state from under
// them.
void keep_libcrypto() {
  static const int kept = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  (void)kept;
}

using Digest = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) {
    for (int shift = 0; shift < 64; shift += 8) all += static_cast<char>(uint64_t{part.size()} >> shift & 0xff);
    all += part;
  }
  return all;
}

const unsigned char* unsigned_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string digest_text(const Digest& digest, unsigned int size) {
  return {reinterpret_cast<const char*>(digest.data()), size};
}

}  // namespace

std::string sha256(std::initializer_list<std::string_view> parts) {
  keep_libcrypto();
  const std::string text = joined(parts);
  Digest digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return digest_text(digest, size);
}

std::string hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  keep_libcrypto();
  const std::string text = joined(parts);
  Digest digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), unsigned_bytes(text), text.size(), digest.data(), &size);
  return digest_text(digest, size);
}

bool equal_secrets(std::string_view left, std::string_view right) {
  return left.size() == right.size() && !left.empty() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

// Straight from the kernel: a generator in our memory would be copied by fork().
Result<std::string> random_bytes(size_t count) {
  std::string bytes(count, '\0');
  if (::getentropy(bytes.data(), bytes.size()) != 0) {
    return Status(Code::kSystem, fmt::format("the operating system gives no {} random bytes", count));
  }
  return bytes;
}

}  // namespace hocket
