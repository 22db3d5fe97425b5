// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A run as a timeline that chrome://tracing and Perfetto show: one process for each rank with a thread for each lane,
// and one for the links. Knows no engine.
#pragma once

#include <ostream>
#include <vector>

#include "simulate/simulate.h"

namespace hocket::simulate {

class ChromeTrace final : public Observer {
 public:
  void on_slice(const Program::Lane& lane, uint32_t step, Picoseconds begin, Picoseconds end, int64_t bytes) override;
  void on_link(LinkId link, Picoseconds begin, Picoseconds end, int64_t bytes) override;

  // True: more happened than was kept.
  bool is_cut() const { return cut_; }
  void write(std::ostream& out, const Fabric& fabric) const;

 private:
  struct Span {
    Picoseconds begin;
    Picoseconds end;
    int64_t bytes;
    int32_t rank;    // -1: a link
    uint32_t track;  // lane or link
    uint32_t step;
  };
  void keep(const Span& span);

  std::vector<Span> spans_;
  bool cut_ = false;
};

inline constexpr size_t kMaxTraceSpans = 2'000'000;

}  // namespace hocket::simulate
