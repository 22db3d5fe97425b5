// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Tensors as the C API takes them; and what is wrong with those that it cannot take.
#pragma once

#include <ATen/ATen.h>
#include <hocket/hocket.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace hocket_torch {

// Names a call in errors: which rank, and what it called.
struct Caller {
  int rank;
  const char* call;
};

// "float32 of shape [2, 3]".
std::string describe(const at::Tensor& tensor);

// Elements of the C API, of which `width` are one of the tensor's: complex numbers are two real ones, and types that it
// does not know travel as bytes.
struct Elements {
  void* data = nullptr;
  size_t count = 0;
  hocketDataType_t type = hocketUint8;
  size_t width = 1;
};

// Of a dense, contiguous tensor, `name` in errors, that is only moved ...
Elements moved(const Caller& caller, const char* name, const at::Tensor& tensor);
// ... and of one whose elements are combined: of a type that can be, and dense in any order of its dimensions.
Elements reduced(const Caller& caller, const char* name, const at::Tensor& tensor);

// One tensor of the list that torch passes where a single one is meant.
const at::Tensor& only(const Caller& caller, const std::vector<at::Tensor>& tensors);
// The root as the C API takes it; torch's number may have more bits, and be of no rank.
int root_of(const Caller& caller, int64_t root, int size);
// Fails unless there are as many tensors as ranks.
void check_one_per_rank(const Caller& caller, const char* name, size_t tensors, int size);

// Tensors of one call, one for each rank, as parts of a buffer that begins at the lowest address.
struct Parts {
  void* data = nullptr;
  hocketDataType_t type = hocketUint8;
  std::vector<size_t> counts;
  std::vector<size_t> offsets;
};
Parts parts_of(const Caller& caller, const char* name, const std::vector<at::Tensor>& tensors);

// A reduction of torch as the C API's, for tensors of one type. Ends with the scope; calls keep what they need.
class Reduction {
 public:
  Reduction(const Caller& caller, const c10d::ReduceOp& op, at::ScalarType type, hocketComm_t comm);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;
  operator hocketRedOp_t() const { return op_; }

 private:
  hocketComm_t made_for_ = nullptr;
  hocketRedOp_t op_ = hocketSum;
};

}  // namespace hocket_torch
