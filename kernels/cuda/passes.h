// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codings whose messages vary in length take several launches, the passes, and memory of the device that keeps what one
// pass leaves to the next: no block waits for another one.
#pragma once

#include "kernels/cuda/coding_work.h"
#include "kernels/element.h"

namespace hocket::device {

// A magnitude is found by its digits, the highest first: so many bits of it, each digit a launch.
HOCKET_ELEMENT constexpr uint32_t magnitude_bits(size_t element_bytes) { return element_bytes == 4 ? 31 : 15; }
HOCKET_ELEMENT constexpr uint32_t digits_of(size_t element_bytes) { return element_bytes == 4 ? 3 : 2; }
inline constexpr uint32_t kMostDigits = 3;
inline constexpr uint32_t kDigitValues = 1 << 11;

// The passes of an encoding. Those before kSift, which leaves candidates, and those that count later digits are of
// encodings only that find the least magnitude by its digits.
enum class RankPass : uint8_t { kClear, kFirstDigit, kCount };
enum class SelectPass : uint8_t { kTally, kGather, kMeasure, kWrite, kMove, kCount };
enum class ScatterPass : uint8_t { kStage, kMeasure, kScatter, kCount };

HOCKET_ELEMENT uint32_t sift_pass(const CodedForm& form) {
  return form.share > 0 ? static_cast<uint32_t>(RankPass::kCount) : 0;
}
HOCKET_ELEMENT uint32_t tally_pass(const CodedForm& form, size_t element_bytes) {
  return sift_pass(form) + 1 + (form.share > 0 ? digits_of(element_bytes) - 1 : 0);
}

// Those of frames (kernels/exponents.h).
enum class FramePass : uint8_t { kCode, kAdd, kMove, kCount };
enum class ReadPass : uint8_t { kStage, kGuess, kFind, kRead, kCount };

// Launches of a coding, one after the other, with `pass` from 0 on.
inline uint32_t passes_of(const CodedForm& form, bool encodes, size_t element_bytes) {
  if (form.kind == CodedForm::Kind::kExponents) {
    return encodes ? static_cast<uint32_t>(FramePass::kCount) : static_cast<uint32_t>(ReadPass::kCount);
  }
  if (form.kind != CodedForm::Kind::kSelect) return 1;
  if (!encodes) return static_cast<uint32_t>(ScatterPass::kCount);
  return tally_pass(form, element_bytes) + static_cast<uint32_t>(SelectPass::kCount);
}

// What a selection keeps between its passes; arrays of the elements follow it.
struct SelectScratch {
  uint32_t seen[kMostDigits][kDigitValues];  // elements that have the digits found before, by the next one
  uint32_t least;                            // magnitude of what is selected,
  uint64_t ties;                             // and how many that have just it, the first ones
  uint64_t tallies[kMostParts];              // of each part: elements above the least << 32 | those that have it;
                                             // decoding: selected elements
  uint64_t gaps[kMostParts];                 // of each part of the selected elements, u16s; decoding: their sum
  uint32_t found[kMostParts][kSelectWarps];  // candidates of what each warp of a part looked through
};

HOCKET_ELEMENT uint64_t aligned(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

// Where the arrays lie. Candidates lie where the elements did that a warp found them among.
struct SelectArrays {
  uint64_t indices;  // u32, of the selected elements
  uint64_t values;   // of these
  uint64_t candidate_values;
  uint64_t candidate_indices;  // u32
  uint64_t places;             // as in the message, unless they are the indices; after the candidates' indices
  uint64_t end;

  HOCKET_ELEMENT SelectArrays(uint64_t count, size_t element_bytes)
      : indices(aligned(sizeof(SelectScratch))),
        values(indices + aligned(count * sizeof(uint32_t))),
        candidate_values(values + aligned(count * element_bytes)),
        candidate_indices(candidate_values + aligned(count * element_bytes)),
        places(candidate_indices),
        end(candidate_indices + aligned(count * sizeof(uint32_t))) {}
};

// Of a frame, where nobody knows yet how long the others are; all of them have room for a message.
HOCKET_ELEMENT uint64_t slot_bytes(size_t element_bytes) { return aligned(1 + kExponentFrame * element_bytes); }

// Following frames, whose heads are looked for together.
inline constexpr uint32_t kFrameGroup = 64;
struct FrameGroup {
  uint64_t begin;  // bytes into the message,
  uint64_t end;    // or kNowhere
};
inline constexpr uint64_t kNowhere = ~uint64_t{0};

// What the coding of frames keeps: u64 for each, u64 for as many as a block has threads, the groups, and the slots.
struct FrameArrays {
  uint64_t sums;
  uint64_t groups;
  uint64_t slots;
  uint64_t end;

  HOCKET_ELEMENT FrameArrays(uint64_t count, size_t element_bytes) {
    const uint64_t frames = (count + kExponentFrame - 1) / kExponentFrame;
    sums = aligned(frames * sizeof(uint64_t));
    groups = sums + aligned((frames + kBlockThreads - 1) / kBlockThreads * sizeof(uint64_t));
    slots = groups + aligned((frames + kFrameGroup - 1) / kFrameGroup * sizeof(FrameGroup));
    end = slots + frames * slot_bytes(element_bytes);
  }
};

inline uint64_t scratch_bytes(const CodedForm& form, uint64_t count, size_t element_bytes) {
  if (form.kind == CodedForm::Kind::kExponents) return FrameArrays(count, element_bytes).end;
  return form.kind == CodedForm::Kind::kSelect ? SelectArrays(count, element_bytes).end : 0;
}

}  // namespace hocket::device
