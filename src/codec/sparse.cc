// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// topk, threshold, randomk, blocksparse: some elements of the message as they are (codec/sparse_message.h), the others
// become zero. NaN and infinities stay what they are: they are the largest of all, so topk and threshold take them
// first (topk: as many as it takes elements), and randomk takes them besides what it draws. blocksparse leaves nothing
// behind but blocks of plus zeros.

#include <algorithm>
#include <cstring>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "codec/select.h"
#include "codec/sparse_message.h"
#include "codec/whole.h"
#include "kernels/random.h"
#include "kernels/select.h"

namespace hocket {
namespace codecs {
namespace {

// Whether all bits are zero: of the first byte, and each byte is like the one before. Most blocks are known by their
// first.
bool all_zero(std::span<const std::byte> bytes) {
  return bytes[0] == std::byte{0} && std::memcmp(&bytes[0], &bytes[1], bytes.size() - 1) == 0;
}

// The worst message: all elements and the head.
class SparseCodec : public Codec {
 public:
  explicit SparseCodec(std::string specification) : specification_(std::move(specification)) {}

  CodecDescription describe(DataType type) const override {
    return {.specification = specification_, .relative_error = 1, .idempotent = true, .range = largest_value(type)};
  }
  bool supports(DataType type) const override {
    return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
  }
  size_t block() const override { return 0; }
  size_t max_encoded_bytes(size_t count, DataType type) const override { return sparse::max_bytes(count, type); }

  Status decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const override {
    HOCKET_TRY(check_sum(*this, op));
    const Status status = sparse::decode(message, op.has_value(), values);
    return status.ok() ? status : bad_message(*this, status.message());
  }

 protected:
  std::string specification_;
};

// Bytes of the share of the elements as indices or bitmap, whichever is less, to the bytes of all.
double sparse_ratio(double kept, DataType type) {
  const auto element = static_cast<double>(element_bytes(type));
  return std::min({1.0, kept * (4 + element) / element, kept + 1 / (8 * element)});
}

class TopK final : public SparseCodec {
 public:
  TopK(std::string specification, double ratio, bool sampled)
      : SparseCodec(std::move(specification)),
        form_{.kind = CodedForm::Kind::kSelect, .share = ratio},
        sampled_(sampled) {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description = SparseCodec::describe(type);
    description.ratio = sparse_ratio(std::min(1.0, (sampled_ ? 2 : 1) * form_.share), type);
    description.idempotent = !sampled_;
    description.encode_speed = sampled_ ? 12 : 13;
    description.decode_speed = 50;
    return description;
  }
  size_t encode(ConstValues values, uint64_t, std::span<std::byte> out) const override {
    const size_t k = share_of(form_.share, values.count);
    select::Selection chosen = sampled_ ? select::about_largest(values, k) : select::largest(values, k);
    // Only where nothing finite was among the largest can something special be left behind.
    const bool crowded = std::all_of(chosen.bits.begin(), chosen.bits.end(), [&](uint32_t bits) {
      return magnitude_of(values.type, bits) >= infinity_of(values.type);
    });
    if (crowded || sampled_) chosen = select::united(chosen, select::special(values));
    return sparse::encode(values.type, values.count, chosen, out.data());
  }
  // What a sample leaves depends on the host's vectors.
  const CodedForm* form() const override { return sampled_ ? nullptr : &form_; }

 private:
  CodedForm form_;
  bool sampled_;
};

class Threshold final : public SparseCodec {
 public:
  Threshold(std::string specification, float least)
      : SparseCodec(std::move(specification)), form_{.kind = CodedForm::Kind::kSelect, .least = least} {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description = SparseCodec::describe(type);
    description.relative_error = 0;
    description.absolute_error = static_cast<double>(form_.least);
    return description;
  }
  size_t encode(ConstValues values, uint64_t, std::span<std::byte> out) const override {
    return sparse::encode(values.type, values.count, select::at_least(values, form_.least), out.data());
  }
  const CodedForm* form() const override { return &form_; }

 private:
  CodedForm form_;
};

// As whole.h says of sparse_codec().
class Nonzeros final : public SparseCodec {
 public:
  explicit Nonzeros(double ratio) : SparseCodec("nonzeros"), ratio_(ratio) { allow_encodings(kMostEncodings); }

  CodecDescription describe(DataType type) const override {
    CodecDescription description = SparseCodec::describe(type);
    description.relative_error = 0;
    description.lossless = true;
    description.encode_speed = 20;
    description.decode_speed = 50;
    description.usual_ratio = ratio_;
    return description;
  }
  size_t block() const override { return 1; }
  size_t encode(ConstValues values, uint64_t, std::span<std::byte> out) const override {
    return sparse::encode(values.type, values.count, select::at_least(values, kLeast), out.data());
  }

 private:
  // No magnitude of any type is smaller, but zero.
  static constexpr float kLeast = 0x1p-149f;
  double ratio_;
};

class RandomK final : public SparseCodec {
 public:
  RandomK(std::string specification, double ratio, bool unbiased, uint64_t seed)
      : SparseCodec(std::move(specification)), ratio_(ratio), unbiased_(unbiased), seed_(mix(seed)) {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description = SparseCodec::describe(type);
    description.ratio = sparse_ratio(ratio_, type);
    description.encode_speed = 6.5;
    description.decode_speed = 50;
    description.idempotent = false;
    description.unbiased = unbiased_;
    // An element that is kept is 1 / ratio times too large, or a little more for the rounding of the share.
    if (unbiased_) description.relative_error = std::max(1.0, (1 / ratio_ - 1) * (1 + 0x1p-7));
    if (unbiased_) description.range *= ratio_ * 0.99;
    return description;
  }
  size_t encode(ConstValues values, uint64_t draw, std::span<std::byte> out) const override {
    const size_t k = share_of(ratio_, values.count);
    const float scale = unbiased_ ? static_cast<float>(values.count) / static_cast<float>(k) : 1;
    const select::Selection chosen = select::random(values, k, draw ^ seed_);
    return sparse::encode(values.type, values.count, select::united(chosen, select::special(values)), out.data(),
                          scale);
  }

 private:
  double ratio_;
  bool unbiased_;
  uint64_t seed_;
};

class BlockSparse final : public SparseCodec {
 public:
  BlockSparse(std::string specification, size_t block) : SparseCodec(std::move(specification)), block_(block) {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description = SparseCodec::describe(type);
    description.relative_error = 0;
    description.lossless = true;
    return description;
  }
  size_t encode(ConstValues values, uint64_t, std::span<std::byte> out) const override {
    const std::vector<size_t> firsts = blocks_with_something(values);
    if (firsts.size() * block_ >= values.count) return sparse::encode_all(values, out.data());
    select::Selection chosen;
    chosen.reserve(firsts.size() * block_);
    for (const size_t first : firsts) select::append(chosen, values, first, std::min(values.count, first + block_));
    return sparse::encode(values.type, values.count, chosen, out.data());
  }

 private:
  // Where they begin.
  std::vector<size_t> blocks_with_something(ConstValues values) const {
    const size_t element = element_bytes(values.type);
    std::vector<size_t> firsts;
    for (size_t first = 0; first < values.count; first += block_) {
      const size_t count = std::min(values.count - first, block_);
      if (!all_zero({values.data + first * element, count * element})) firsts.push_back(first);
    }
    return firsts;
  }

  size_t block_;
};

}  // namespace

MadeCodec make_topk(Specification& specification) {
  const double ratio = specification.real("ratio", 0.01, 1e-9, 1);
  const bool sampled = specification.word("select", {"exact", "sampled"}) == 1;
  return std::make_unique<TopK>(specification.canonical(), ratio, sampled);
}

MadeCodec make_threshold(Specification& specification) {
  const auto least = static_cast<float>(specification.real("least", 0.001, 0, 1e38));
  return std::make_unique<Threshold>(specification.canonical(), least);
}

MadeCodec make_randomk(Specification& specification) {
  const double ratio = specification.real("ratio", 0.01, 1e-9, 1);
  const bool unbiased = specification.flag("unbiased");
  const auto seed = static_cast<uint64_t>(specification.integer("seed", 0, 0, INT64_MAX));
  return std::make_unique<RandomK>(specification.canonical(), ratio, unbiased, seed);
}

MadeCodec make_blocksparse(Specification& specification) {
  const auto block = static_cast<size_t>(specification.integer("block", 256, 1, 65536));
  return std::make_unique<BlockSparse>(specification.canonical(), block);
}

}  // namespace codecs

std::shared_ptr<const Codec> sparse_codec(double ratio) { return std::make_shared<codecs::Nonzeros>(ratio); }

}  // namespace hocket
