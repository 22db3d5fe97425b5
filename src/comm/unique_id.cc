// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Layout: magic 4, format 1, flags 1, length of the addresses 1, ports 1; key 16; check 4; addresses, separated by
// blanks, padded with zeros. The check finds ids that were cut or mixed up on their way from rank 0 to the others.
#include "comm/unique_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "comm/handshake_crypto.h"

namespace hocket {
namespace {

constexpr std::string_view kMagic = "HKid";
constexpr char kFormat = 1;
constexpr char kRootMayBeLate = 1;
constexpr uint16_t kMaxPorts = 16;
constexpr size_t kKeyAt = 8;
constexpr size_t kCheckAt = kKeyAt + kKeyBytes;
constexpr size_t kCheckBytes = 4;
constexpr size_t kAddressesAt = kCheckAt + kCheckBytes;
constexpr size_t kAddressesLimit = kUniqueIdBytes - kAddressesAt;

std::string check_of(std::string_view bytes) {
  return sha256({"hocket unique id", bytes.substr(0, kCheckAt), bytes.substr(kAddressesAt)}).substr(0, kCheckBytes);
}

Status bad_id(std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("this is no unique id of hocket: {}", why)};
}

void add_ports(std::string_view address, int ports, std::vector<Address>* addresses) {
  const size_t colon = address.rfind(':');
  uint16_t first = 0;
  const char* const end = address.data() + address.size();
  const bool has_port = colon != std::string_view::npos && !address.starts_with("unix:") &&
                        std::from_chars(address.data() + colon + 1, end, first).ptr == end;
  if (!has_port) {
    addresses->emplace_back(address);
    return;
  }
  // None of an address without a port that is one: `first` is 0.
  for (int port = first; first > 0 && port < first + ports && port <= UINT16_MAX; ++port) {
    addresses->push_back(fmt::format("{}:{}", address.substr(0, colon), port));
  }
}

}  // namespace

std::string public_id_of(std::string_view key) { return sha256({"hocket public id", key}).substr(0, kKeyBytes); }

std::string derive_key(std::string_view secret, std::string_view purpose) {
  return hmac_sha256(secret, {"hocket derived key", purpose}).substr(0, kKeyBytes);
}

std::string UniqueId::public_id() const { return public_id_of(key); }

Result<std::string> encode_unique_id(const UniqueId& id) {
  std::string addresses;
  for (const Address& address : id.addresses) {
    const size_t needed = address.size() + (addresses.empty() ? 0 : 1);
    if (addresses.size() + needed > kAddressesLimit) {
      log_warn("rank 0 will not be looked for at {}: a unique id has room for {} bytes of addresses", address,
               kAddressesLimit);
      continue;
    }
    if (!addresses.empty()) addresses += ' ';
    addresses += address;
  }
  if (addresses.empty()) return Status(Code::kInternal, "a unique id needs an address that fits");
  if (id.key.size() != kKeyBytes) return Status(Code::kInternal, fmt::format("a key of {} bytes", id.key.size()));
  std::string bytes(kMagic);
  bytes += kFormat;
  bytes += id.root_may_be_late ? kRootMayBeLate : '\0';
  bytes += static_cast<char>(addresses.size());
  bytes += static_cast<char>(std::clamp<uint16_t>(id.ports, 1, kMaxPorts));
  bytes += id.key;
  bytes.append(kCheckBytes, '\0');
  bytes += addresses;
  bytes.resize(kUniqueIdBytes, '\0');
  bytes.replace(kCheckAt, kCheckBytes, check_of(bytes));
  return bytes;
}

Result<UniqueId> decode_unique_id(std::string_view bytes) {
  if (bytes.size() != kUniqueIdBytes)
    return bad_id(fmt::format("{} bytes instead of {}", bytes.size(), kUniqueIdBytes));
  if (!bytes.starts_with(kMagic)) return bad_id("it does not begin as one");
  if (bytes[4] != kFormat) return bad_id(fmt::format("format {}, known is {}", int{bytes[4]}, int{kFormat}));
  if (bytes.substr(kCheckAt, kCheckBytes) != check_of(bytes)) return bad_id("its bytes were damaged on the way");
  const auto length = static_cast<size_t>(static_cast<unsigned char>(bytes[6]));
  if (length > kAddressesLimit) return bad_id("its addresses end behind it");
  const int ports = bytes[7];
  if (ports < 1 || ports > kMaxPorts) return bad_id("it holds no port");
  UniqueId id;
  id.root_may_be_late = (bytes[5] & kRootMayBeLate) != 0;
  id.key = bytes.substr(kKeyAt, kKeyBytes);
  std::string_view rest = bytes.substr(kAddressesAt, length);
  while (!rest.empty()) {
    const std::string_view address = rest.substr(0, rest.find(' '));
    if (!address.empty()) add_ports(address, ports, &id.addresses);
    rest.remove_prefix(std::min(rest.size(), address.size() + 1));
  }
  if (id.addresses.empty()) return bad_id("it holds no address");
  return id;
}

}  // namespace hocket
