// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The 128 bytes that admit a rank to a communicator: where its root listens, and the secret key. Knows no socket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

inline constexpr size_t kUniqueIdBytes = 128;
inline constexpr size_t kKeyBytes = 16;  // of a key, and of the public id made from it

struct UniqueId {
  std::vector<Address> addresses;  // of the root, in order of preference
  uint16_t ports = 1;              // each address stands for so many consecutive ports, at one of which the root is
  std::string key;                 // kKeyBytes, secret
  // The root may come up later than its guests: the address was agreed in advance, not told by the root.
  bool root_may_be_late = false;

  // Names the communicator in public. The key cannot be found from it.
  std::string public_id() const;
};

// Addresses that do not fit any more are left out; at least one must fit.
Result<std::string> encode_unique_id(const UniqueId& id);
// Never trusts its input: a wrong length, a foreign or a damaged id is an error. Ports are written out: ports is 1.
Result<UniqueId> decode_unique_id(std::string_view bytes);

// A new key from secret text, for example the n-th communicator of a job or the child of a split.
std::string derive_key(std::string_view secret, std::string_view purpose);
std::string public_id_of(std::string_view key);

}  // namespace hocket
