// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The codecs of CodedForm as the blocks of a grid do them: encoding, and decoding, which may add to what is there.
// Written once for device and host, and held against the host's codecs bit for bit. Here rounding to narrower floats
// and to powers of two.
#pragma once

#include "kernels/cuda/exponents.h"
#include "kernels/cuda/quantise.h"
#include "kernels/cuda/select.h"
#include "kernels/cuda/signs.h"
#include "kernels/powers.h"

namespace hocket::device {

// Quads of a tile that a thread has under way at once, to hide how long memory takes to answer.
inline constexpr uint32_t kAtOnce = kTile / kQuad / kBlockThreads;

// Where a thread's quads begin in the tile.
HOCKET_ELEMENT uint32_t quad_index(uint32_t thread, uint32_t quad) { return (quad * kBlockThreads + thread) * kQuad; }

// A tile's codes, which codes.load<whole>(index) loads four at a time and floats_of(these, floats) decodes, in the
// place of its values or added to them.
template <bool whole, DataType type, typename Codes, typename FloatsOf>
HOCKET_ELEMENT void decode_quads(const Quads<type>& values, const Codes& codes, bool adds, uint32_t thread,
                                 FloatsOf floats_of) {
  decltype(codes.template load<whole>(0)) loaded[kAtOnce];
  Four<type> before[kAtOnce] = {};
  HOCKET_UNROLLED
  for (uint32_t q = 0; q < kAtOnce; ++q) {
    loaded[q] = codes.template load<whole>(quad_index(thread, q));
    if (adds) before[q] = values.template load<whole>(quad_index(thread, q));
  }
  HOCKET_UNROLLED
  for (uint32_t q = 0; q < kAtOnce; ++q) {
    float quad[kQuad];
    floats_of(loaded[q], quad);
    values.template store<whole>(quad_index(thread, q), result_of(before[q], adds, quad));
  }
}

// The other way round: code_of(index, floats) encodes.
template <bool whole, DataType type, typename Codes, typename CodeOf>
HOCKET_ELEMENT void encode_quads(const Quads<type>& values, const Codes& codes, uint32_t thread, CodeOf code_of) {
  Four<type> loaded[kAtOnce];
  HOCKET_UNROLLED
  for (uint32_t q = 0; q < kAtOnce; ++q) loaded[q] = values.template load<whole>(quad_index(thread, q));
  HOCKET_UNROLLED
  for (uint32_t q = 0; q < kAtOnce; ++q) {
    float quad[kQuad];
    loaded[q].decode(quad);
    codes.template store<whole>(quad_index(thread, q), code_of(quad_index(thread, q), quad));
  }
}

// Rounded to a narrower float; nothing is shared.
struct CastTile {};

template <DataType type>
class TileCaster {
 public:
  HOCKET_ELEMENT TileCaster(const CodingWork& work, const Team& team, CastTile&, uint64_t tile)
      : work_(work), team_(team), first_(tile * kTile), values_(work.values, first_, work.count, kTile) {}

  HOCKET_ELEMENT void encode() const {
    with_wire([&]<DataType wire>(const Quads<wire>& codes, auto whole, uint32_t thread) {
      encode_quads<whole()>(values_, codes, thread, [](uint32_t, const float(&quad)[kQuad]) {
        Four<wire> code;
        code.encode(quad);
        return code;
      });
    });
  }

  HOCKET_ELEMENT void decode() const {
    with_wire([&]<DataType wire>(const Quads<wire>& codes, auto whole, uint32_t thread) {
      decode_quads<whole()>(values_, codes, work_.adds, thread,
                            [](const Four<wire>& code, float(&quad)[kQuad]) { code.decode(quad); });
    });
  }

 private:
  // Messages are aligned: whole tiles' codes are, where the values are.
  template <typename Function>
  HOCKET_ELEMENT void with_wire(Function function) const {
    if (work_.form.wire == DataType::kFloat16) {
      code(Quads<DataType::kFloat16>(work_.message, first_, work_.count, kTile), function);
    } else {
      code(Quads<DataType::kBfloat16>(work_.message, first_, work_.count, kTile), function);
    }
  }

  template <DataType wire, typename Function>
  HOCKET_ELEMENT void code(const Quads<wire>& codes, Function function) const {
    values_.with_access([&](auto whole) { team_.alone([&](uint32_t thread) { function(codes, whole, thread); }); });
  }

  const CodingWork& work_;
  const Team& team_;
  uint64_t first_;
  Quads<type> values_;
};

// One of the two powers of two around each element (kernels/powers.h), in a byte; nothing is shared.
struct PowerTile {};

// The bytes of a tile, four at a time.
class PowerCodes {
 public:
  using Codes = Pack<uint8_t, kQuad>;

  HOCKET_ELEMENT PowerCodes(std::byte* bytes, uint32_t count) : bytes_(bytes), count_(count) {}

  // Of elements beyond the last, anything.
  template <bool whole>
  HOCKET_ELEMENT Codes load(uint32_t index) const {
    if constexpr (whole) {
      return *reinterpret_cast<const Codes*>(bytes_ + index);
    } else {
      Codes codes = {};
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) {
        if (index + i < count_) codes.values[i] = static_cast<uint8_t>(bytes_[index + i]);
      }
      return codes;
    }
  }

  template <bool whole>
  HOCKET_ELEMENT void store(uint32_t index, const Codes& codes) const {
    if constexpr (whole) {
      *reinterpret_cast<Codes*>(bytes_ + index) = codes;
    } else {
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) {
        if (index + i < count_) bytes_[index + i] = std::byte{codes.values[i]};
      }
    }
  }

 private:
  std::byte* bytes_;
  uint32_t count_;
};

template <DataType type>
class TilePowers {
 public:
  HOCKET_ELEMENT TilePowers(const CodingWork& work, const Team& team, PowerTile&, uint64_t tile)
      : work_(work),
        team_(team),
        first_(tile * kTile),
        values_(work.values, first_, work.count, kTile),
        codes_(work.message + first_, values_.count()) {}

  HOCKET_ELEMENT void encode() const {
    const TileDraws<type> draws(work_, first_);
    values_.with_access([&](auto whole) {
      team_.alone([&](uint32_t thread) {
        encode_quads<whole()>(values_, codes_, thread, [&](uint32_t index, const float(&quad)[kQuad]) {
          PowerCodes::Codes codes;
          HOCKET_UNROLLED
          for (uint32_t i = 0; i < kQuad; ++i) codes.values[i] = signed_power_code(quad[i], draws.word(index + i));
          return codes;
        });
      });
    });
  }

  HOCKET_ELEMENT void decode() const {
    values_.with_access([&](auto whole) {
      team_.alone([&](uint32_t thread) {
        decode_quads<whole()>(values_, codes_, work_.adds, thread,
                              [](const PowerCodes::Codes& codes, float(&quad)[kQuad]) {
                                HOCKET_UNROLLED
                                for (uint32_t i = 0; i < kQuad; ++i) quad[i] = power_value(codes.values[i]);
                              });
      });
    });
  }

 private:
  const CodingWork& work_;
  const Team& team_;
  uint64_t first_;
  Quads<type> values_;
  PowerCodes codes_;
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
  const uint64_t tiles = tiles_of(work);
  for (uint64_t tile = blocks.index; tile < tiles; tile += blocks.count) {
    typename Tiles::Coder(work, team, shared, tile).encode();
  }
}

template <typename Tiles>
HOCKET_ELEMENT void decode_tiles(const CodingWork& work, const Team& team, Threads blocks,
                                 typename Tiles::Shared& shared) {
  const uint64_t tiles = tiles_of(work);
  for (uint64_t tile = blocks.index; tile < tiles; tile += blocks.count) {
    typename Tiles::Coder(work, team, shared, tile).decode();
  }
}

}  // namespace hocket::device
