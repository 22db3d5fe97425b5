// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A stream socket whose bytes nobody between its ends can read, change, leave out or repeat: records of AES-256-GCM,
// numbered, with a key for each direction. A record is four bytes of length, that many bytes, and a tag over both.
#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.h"

namespace hocket {

class SealedSocket final : public Socket {
 public:
  static constexpr size_t kKeyBytes = 32;
  static constexpr size_t kRecordBytes = size_t{64} << 10;  // at most, before it is sealed

  // Keys of kKeyBytes that seal nothing else.
  SealedSocket(std::unique_ptr<Socket> socket, std::string_view send_key, std::string_view receive_key);

  // Bytes that were not accepted are offered again, unchanged: a part of them may be sealed already.
  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override;
  // Goes on until there is no more, or no room: who waits for news afterwards misses none.
  Result<size_t> receive(std::span<std::byte> into) override;
  // Streams between hosts carry none.
  Result<size_t> send_handles(std::span<const std::byte> bytes, std::span<const Handle> handles) override;
  std::vector<Handle> take_handles() override { return {}; }
  Handle handle() const override { return socket_->handle(); }
  std::string peer_name() const override { return socket_->peer_name(); }
  size_t under_way() const override { return socket_->under_way(); }
  size_t held_back() const override { return in_size_; }

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  using Cipher = std::unique_ptr<EVP_CIPHER_CTX, Free>;

  static Cipher cipher(std::string_view key, bool seals);
  bool seal(std::span<const std::span<const std::byte>> parts, size_t offset);
  Result<bool> push();
  bool fill();
  Result<bool> collect();
  bool open_record();
  Status broken(std::string_view what) const;

  const std::unique_ptr<Socket> socket_;
  const Cipher sealing_;
  const Cipher opening_;
  uint64_t sealed_records_ = 0;
  uint64_t opened_records_ = 0;
  std::vector<std::byte> out_;  // a sealed record ...
  size_t out_begin_ = 0;        // ... of which so much is sent
  size_t out_plain_ = 0;        // what it holds
  Status failure_;              // of receiving
  std::vector<std::byte> in_;   // a record, as far as it has come
  size_t in_size_ = 0;
  std::vector<std::byte> plain_;  // an opened one ...
  size_t plain_begin_ = 0;        // ... of which so much was read
};

}  // namespace hocket
