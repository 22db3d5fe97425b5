// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Every codec's decoder, on every instruction set, meets arbitrary bytes, and messages of its own in which some bytes
// are changed. What encode() wrote decodes; nothing reads or writes beyond its memory.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "codec/codec.h"
#include "tests/codec/specifications.h"

namespace {

using namespace hocket;

const std::vector<std::unique_ptr<const Codec>>& codecs() {
  static const auto list = [] {
    std::vector<std::unique_ptr<const Codec>> made;
    for (const std::string& specification : all_specifications()) {
      auto codec = make_codec(specification);
      if (!codec.ok()) std::abort();
      made.push_back(std::move(*codec));
    }
    return made;
  }();
  return list;
}

// Beyond one lossless frame, and not much: what is longer only takes longer.
constexpr uint16_t kMaxCount = 4200;

// The head of an input: which codec and type, how many elements, what is done with the rest.
struct Head {
  uint8_t codec;
  uint8_t type;
  uint16_t count;
  uint8_t changes;  // 0: the rest is a message; else: values, and so many changes to what they encode to
  uint8_t add;      // bit 0: what is decoded is added; bit 1: half of the message is cut off; the rest: instruction set
};

void decode(const Codec& codec, const std::vector<std::byte>& message, bool add, DataType type, size_t count,
            bool must_succeed) {
  std::vector<std::byte> values(count * element_bytes(type));
  const auto op = add ? std::optional(ReduceOp::kSum) : std::nullopt;
  const std::vector<std::byte> exact(message.begin(), message.end());  // room behind it would hide a read beyond it
  const Status status = codec.decode_reduce(exact, op, {type, values.data(), count});
  if (status.ok() || !must_succeed) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::abort();
}

void change_and_decode(const Codec& codec, const Head& head, DataType type, const uint8_t* data, size_t size) {
  std::vector<std::byte> values(head.count * element_bytes(type));
  for (size_t i = 0; i < values.size() && size > 0; ++i) values[i] = std::byte{data[i % size]};
  std::vector<std::byte> message(codec.max_encoded_bytes(head.count, type));
  message.resize(codec.encode({type, values.data(), head.count}, head.changes, message));
  decode(codec, message, head.add & 1, type, head.count, true);
  for (size_t change = 0; change < head.changes && !message.empty() && size > 0; ++change) {
    const size_t place = (data[change % size] * size_t{257} + change * 31) % message.size();
    message[place] ^= std::byte{static_cast<uint8_t>(data[(change + 1) % size] | 1)};
  }
  if (head.add & 2) message.resize(message.size() / 2);
  decode(codec, message, head.add & 1, type, head.count, false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Head head;
  if (size < sizeof head) return 0;
  std::memcpy(&head, data, sizeof head);
  head.count = static_cast<uint16_t>(head.count % kMaxCount);
  data += sizeof head;
  size -= sizeof head;
  const Codec& codec = *codecs()[head.codec % codecs().size()];
  constexpr std::array<DataType, 3> kTypes = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
  const DataType type = kTypes[head.type % kTypes.size()];
  if (!codec.supports(type)) return 0;
  const auto sets = instruction_sets();
  force_instruction_set(sets[(head.add >> 2) % sets.size()]);
  if (head.changes > 0) {
    change_and_decode(codec, head, type, data, size);
    return 0;
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  decode(codec, std::vector<std::byte>(bytes, bytes + size), head.add & 1, type, head.count, false);
  return 0;
}
