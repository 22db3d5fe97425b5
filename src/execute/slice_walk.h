// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The order in which a lane makes its slices: pass by pass, step by step, from the beginning of the step's part of the
// pass to its end. Equal on all ranks, whoever makes them (execution.h, fast_path.h).
#pragma once

#include <algorithm>
#include <cstddef>

#include "execute/layout.h"

namespace hocket {

struct Call;

class SliceWalk {
 public:
  SliceWalk() = default;
  // At the first step. `scratch`: how the call's scratch memory lies. All of them outlive this.
  SliceWalk(const Lane& lane, const Call& call, const Layout& scratch);

  bool ended() const { return pass_ == passes_; }
  size_t pass() const { return pass_; }
  size_t step() const { return step_; }
  const Step& at() const { return lane_->steps[step_]; }
  // Nothing of the step moves in this pass.
  bool is_empty() const { return is_empty_; }
  // The slice: elements into the part of every chunk that is in the window.
  Window window() const;
  size_t begin() const { return begin_; }
  size_t count() const { return std::min(extent_ - begin_, slice_elements_); }
  // To the step's next slice, or to the next step: true.
  bool next();

 private:
  void enter();

  const Lane* lane_ = nullptr;
  const Call* call_ = nullptr;
  const Layout* scratch_ = nullptr;
  size_t passes_ = 0;
  size_t slice_elements_ = 1;
  size_t pass_ = 0;
  size_t step_ = 0;
  size_t extent_ = 0;  // elements of the step in this pass
  size_t begin_ = 0;
  bool is_empty_ = false;
};

}  // namespace hocket
