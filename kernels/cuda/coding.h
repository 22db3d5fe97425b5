// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The codecs of CodedForm as the blocks of a grid do them: encoding, and decoding, which may add to what is there.
// Written once for device and host, and held against the host's codecs bit for bit. Rounding to narrower floats
// and to powers of two, and signs with the mean of their magnitudes; block quantisation is in quantise.h, selection in
// select.h.
#pragma once

#include "kernels/cuda/exponents.h"
#include "kernels/cuda/quantise.h"
#include "kernels/cuda/select.h"
#include "kernels/powers.h"

namespace hocket::device {

// Rounded to a narrower float; nothing is shared.
struct CastTile {};

template <DataType type>
class TileCaster {
 public:
  HOCKET_ELEMENT TileCaster(const CodingWork& work, const Team& team, CastTile&, uint64_t tile)
      : work_(work), team_(team), values_(work.values, work.count), first_(tile * kTile) {}

  HOCKET_ELEMENT void encode() const {
    team_.each([&](uint32_t thread) {
      float quad[kQuad];
      const uint64_t index = first_ + thread * kQuad;
      values_.load(index, quad);
      with_wire([&](auto wire) { wire.store(index, quad, false); });
    });
  }

  HOCKET_ELEMENT void decode() const {
    team_.each([&](uint32_t thread) {
      float quad[kQuad];
      const uint64_t index = first_ + thread * kQuad;
      with_wire([&](auto wire) { wire.load(index, quad); });
      values_.store(index, quad, work_.adds);
    });
  }

 private:
  template <typename Function>
  HOCKET_ELEMENT void with_wire(Function function) const {
    if (work_.form.wire == DataType::kFloat16) {
      function(Quads<DataType::kFloat16>(work_.message, work_.count));
    } else {
      function(Quads<DataType::kBfloat16>(work_.message, work_.count));
    }
  }

  const CodingWork& work_;
  const Team& team_;
  Quads<type> values_;
  uint64_t first_;
};

// A block of the codec: as src/codec/sign.cc says.
struct SignTile {
  float values[kCodedTile];
  double sums[16];
};

template <DataType type>
class TileSigner {
  static constexpr uint32_t kSums = 16;

 public:
  HOCKET_ELEMENT TileSigner(const CodingWork& work, const Team& team, SignTile& shared, uint64_t tile)
      : work_(work), team_(team), shared_(shared), values_(work.values, work.count) {
    const uint32_t block = work.form.sign_block;
    first_ = tile * block;
    count_ = static_cast<uint32_t>(work.count - first_ < block ? work.count - first_ : block);
    bytes_ = (count_ + 7) / 8;
    message_ = work.message + tile * (sizeof(float) + block / 8);
  }

  HOCKET_ELEMENT void encode() const {
    team_.each([&](uint32_t thread) {
      for (uint32_t i = thread * kQuad; i < count_; i += kTile) {
        float quad[kQuad];
        values_.load(first_ + i, quad);
        for (uint32_t j = 0; j < kQuad; ++j) shared_.values[i + j] = quad[j];
      }
    });
    team_.each([&](uint32_t thread) {
      if (thread >= kSums) return;
      double sum = 0;
      for (uint32_t i = thread; i < count_; i += kSums) {
        sum += static_cast<double>(element::float_of(element::bits_of(shared_.values[i]) & 0x7fffffffu));
      }
      shared_.sums[thread] = sum;
    });
    team_.each([&](uint32_t thread) {
      if (thread == 0) *reinterpret_cast<uint32_t*>(message_) = element::bits_of(mean_magnitude());
      for (uint32_t j = thread; j < bytes_; j += kBlockThreads) message_[sizeof(float) + j] = signs_of(j);
    });
  }

  HOCKET_ELEMENT void decode() const {
    const uint32_t scale = *reinterpret_cast<const uint32_t*>(message_);
    team_.each([&](uint32_t thread) {
      for (uint32_t i = thread * kQuad; i < count_; i += kTile) {
        float quad[kQuad];
        for (uint32_t j = 0; j < kQuad; ++j) quad[j] = element::float_of(scale ^ sign_of(i + j) << 31);
        values_.store(first_ + i, quad, work_.adds);
      }
    });
  }

 private:
  HOCKET_ELEMENT float mean_magnitude() const {
    double sum = 0;
    for (uint32_t j = 0; j < kSums; ++j) sum += shared_.sums[j];
    const auto mean = static_cast<float>(sum / static_cast<double>(count_));
    return element::bits_of(mean) < kInfinityBits ? mean : element::float_of(0x7fc00000u);
  }

  HOCKET_ELEMENT std::byte signs_of(uint32_t byte) const {
    uint32_t signs = 0;
    for (uint32_t p = 0, i = byte; i < count_; ++p, i += bytes_) signs |= (shared_.values[i] < 0 ? 1u : 0u) << p;
    return static_cast<std::byte>(signs);
  }

  // Of an element beyond the last, anything.
  HOCKET_ELEMENT uint32_t sign_of(uint32_t index) const {
    return static_cast<uint32_t>(message_[sizeof(float) + index % bytes_]) >> (index / bytes_) & 1u;
  }

  const CodingWork& work_;
  const Team& team_;
  SignTile& shared_;
  Quads<type> values_;
  uint64_t first_;
  uint32_t count_;
  uint32_t bytes_;
  std::byte* message_;
};

// One of the two powers of two around each element (kernels/powers.h), in a byte; nothing is shared.
struct PowerTile {};

template <DataType type>
class TilePowers {
  using Codes = Pack<uint8_t, kQuad>;

 public:
  HOCKET_ELEMENT TilePowers(const CodingWork& work, const Team& team, PowerTile&, uint64_t tile)
      : work_(work), team_(team), values_(work.values, work.count), first_(tile * kTile) {}

  HOCKET_ELEMENT void encode() const {
    const TileDraws<type> draws(work_, first_);
    team_.each([&](uint32_t thread) {
      float quad[kQuad];
      Codes codes;
      values_.load(first_ + thread * kQuad, quad);
      for (uint32_t i = 0; i < kQuad; ++i) codes.values[i] = signed_power_code(quad[i], draws.word(thread * kQuad + i));
      const uint64_t index = first_ + thread * kQuad;
      if (index + kQuad <= work_.count) {
        *reinterpret_cast<Codes*>(work_.message + index) = codes;
      } else {
        for (uint32_t i = 0; index + i < work_.count; ++i) work_.message[index + i] = std::byte{codes.values[i]};
      }
    });
  }

  HOCKET_ELEMENT void decode() const {
    team_.each([&](uint32_t thread) {
      const uint64_t index = first_ + thread * kQuad;
      if (index >= work_.count) return;
      float quad[kQuad];
      for (uint32_t i = 0; i < kQuad; ++i) {
        const uint64_t at = index + i < work_.count ? index + i : index;
        quad[i] = power_value(static_cast<uint8_t>(work_.message[at]));
      }
      values_.store(index, quad, work_.adds);
    });
  }

 private:
  const CodingWork& work_;
  const Team& team_;
  Quads<type> values_;
  uint64_t first_;
};

// By kind and type: what codes a tile, and what its threads share.
template <CodedForm::Kind kind, DataType type>
struct TileCoder;
template <DataType type>
struct TileCoder<CodedForm::Kind::kCast, type> {
  using Coder = TileCaster<type>;
  using Shared = CastTile;
};
template <DataType type>
struct TileCoder<CodedForm::Kind::kBlocks, type> {
  using Coder = TileQuantiser<type>;
  using Shared = QuantiseTile;
};
template <DataType type>
struct TileCoder<CodedForm::Kind::kSign, type> {
  using Coder = TileSigner<type>;
  using Shared = SignTile;
};

template <DataType type>
struct TileCoder<CodedForm::Kind::kPowers, type> {
  using Coder = TilePowers<type>;
  using Shared = PowerTile;
};

template <DataType type>
struct TileCoder<CodedForm::Kind::kSelect, type> {
  using Coder = PartSelector<type>;
  using Shared = SelectRoom;
};

template <DataType type>
struct TileCoder<CodedForm::Kind::kExponents, type> {
  using Coder = FrameCoder<type>;
  using Shared = FrameRoom;
};

// What one block of a grid does. `Tiles`: a TileCoder.
template <typename Tiles>
HOCKET_ELEMENT void encode_tiles(const CodingWork& work, const Team& team, Threads blocks,
                                 typename Tiles::Shared& shared) {
  for (uint64_t tile = blocks.index; tile < tiles_of(work); tile += blocks.count) {
    typename Tiles::Coder(work, team, shared, tile).encode();
  }
}

template <typename Tiles>
HOCKET_ELEMENT void decode_tiles(const CodingWork& work, const Team& team, Threads blocks,
                                 typename Tiles::Shared& shared) {
  for (uint64_t tile = blocks.index; tile < tiles_of(work); tile += blocks.count) {
    typename Tiles::Coder(work, team, shared, tile).decode();
  }
}

}  // namespace hocket::device
