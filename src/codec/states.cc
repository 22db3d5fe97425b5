// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bytes.h"

namespace hocket {
namespace {

constexpr std::string_view kMagic = "hocket states 2";
constexpr size_t kMaxOwner = 512;

Status wrong(std::string why) { return {Code::kInvalidArgument, "error feedback: " + std::move(why)}; }

bool is_kept(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// The exponent of whatever is not finite is all ones; of all values at once, so that it becomes vectors.
template <typename Bits>
bool all_below(ConstValues values, Bits infinity) {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
  Bits most = 0;
  for (size_t i = 0; i < values.count; ++i) {
    Bits bits;
    std::memcpy(&bits, values.data + i * sizeof bits, sizeof bits);
    most = std::max<Bits>(most, bits & kMagnitude);
  }
  return most < infinity;
}

bool is_finite(ConstValues values) {
  if (values.type == DataType::kFloat32) return all_below<uint32_t>(values, 0x7f800000);
  return all_below<uint16_t>(values, values.type == DataType::kFloat16 ? 0x7c00 : 0x7f80);
}

bool is_finite(const std::vector<float>& part) {
  return is_finite({DataType::kFloat32, reinterpret_cast<const std::byte*>(part.data()), part.size()});
}

bool has_lengths(const std::vector<std::vector<float>>& parts, std::span<const size_t> lengths) {
  return std::equal(
      parts.begin(), parts.end(), lengths.begin(), lengths.end(),
      [](const std::vector<float>& part, size_t length) { return part.empty() || part.size() == length; });
}

std::vector<float> read_part(Reader& in) {
  const uint64_t count = in.u64();
  if (count > in.left() / sizeof(float)) in.fail();
  if (!in.ok()) return {};
  const std::string raw = in.raw(count * sizeof(float));
  std::vector<float> part(count);
  std::copy(raw.begin(), raw.end(), reinterpret_cast<char*>(part.data()));
  return part;
}

States::Tensor read_tensor(Reader& in) {
  States::Tensor tensor;
  const uint8_t type = in.u8();
  tensor.type = static_cast<DataType>(type);
  tensor.count = in.u64();
  tensor.steps = in.u64();
  const uint8_t parts = in.u8();
  if (type >= kDataTypes || !is_kept(tensor.type) || parts > States::kMaxParts) in.fail();
  for (uint8_t part = 0; part < parts && in.ok(); ++part) tensor.now.push_back(read_part(in));
  return tensor;
}

}  // namespace

Result<States::Tensor*> States::open(std::string_view key, DataType type, size_t count,
                                     std::span<const size_t> lengths) {
  if (key.size() > kMaxKeyBytes) {
    return wrong(fmt::format("a key of {} bytes: at most {} are allowed", key.size(), kMaxKeyBytes));
  }
  if (!is_kept(type)) return wrong(fmt::format("no state is kept of {}", name(type)));
  const auto found = tensors_.find(key);
  if (found == tensors_.end()) {
    if (tensors_.size() == kMaxKeys) return wrong(fmt::format("more than {} keys", kMaxKeys));
    Tensor fresh{.type = type, .count = count};
    fresh.now.resize(lengths.size());
    fresh.next.resize(lengths.size());
    return &tensors_.emplace(std::string(key), std::move(fresh)).first->second;
  }
  Tensor& tensor = found->second;
  if (tensor.type != type || tensor.count != count) {
    return wrong(fmt::format("key '{}' was used for {} {}, now for {} {}", key, tensor.count, name(tensor.type), count,
                             name(type)));
  }
  if (!has_lengths(tensor.now, lengths)) {
    return wrong(fmt::format("what was loaded for key '{}' was kept by another number of ranks, or is damaged", key));
  }
  tensor.next.resize(lengths.size());
  return &tensor;
}

void States::commit(std::string_view key, ConstValues result) {
  Tensor& tensor = tensors_.find(key)->second;
  const bool is_step =
      is_finite(result) && std::ranges::all_of(tensor.next, [](const auto& part) { return is_finite(part); });
  if (is_step) std::swap(tensor.now, tensor.next);
  ++tensor.steps;
}

const States::Tensor* States::find(std::string_view key) const {
  const auto found = tensors_.find(key);
  return found == tensors_.end() ? nullptr : &found->second;
}

void States::reset(std::string_view key) {
  const auto found = tensors_.find(key);
  if (found != tensors_.end()) tensors_.erase(found);
}

std::string States::save() const {
  Writer out;
  out.text(kMagic);
  out.text(owner_);
  out.u32(static_cast<uint32_t>(tensors_.size()));
  for (const auto& [key, tensor] : tensors_) {
    out.text(key);
    out.u8(static_cast<uint8_t>(tensor.type));
    out.u64(tensor.count);
    out.u64(tensor.steps);
    out.u8(static_cast<uint8_t>(tensor.now.size()));
    for (const std::vector<float>& part : tensor.now) {
      out.u64(part.size());
      out.raw({reinterpret_cast<const char*>(part.data()), part.size() * sizeof(float)});
    }
  }
  return out.take();
}

Status States::load(std::string_view bytes) {
  Reader in(bytes);
  if (in.text(kMagic.size()) != kMagic) return wrong("these bytes are no saved state");
  const std::string owner = in.text(kMaxOwner);
  if (in.ok() && owner != owner_) {
    return wrong(fmt::format("the saved state belongs to '{}', this is '{}'", owner, owner_));
  }
  std::map<std::string, Tensor, std::less<>> loaded;
  const uint32_t tensors = in.u32();
  for (uint32_t i = 0; i < tensors && in.ok(); ++i) {
    const std::string key = in.text(kMaxKeyBytes);
    Tensor tensor = read_tensor(in);
    if (in.ok()) loaded.insert_or_assign(key, std::move(tensor));
  }
  if (!in.finished() || loaded.size() != tensors) return wrong("the saved state is damaged or cut");
  tensors_ = std::move(loaded);
  return {};
}

}  // namespace hocket
