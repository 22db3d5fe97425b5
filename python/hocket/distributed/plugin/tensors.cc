// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tensors.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "errors.h"

namespace hocket_torch {
namespace {

std::optional<hocketDataType_t> type_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kByte:
      return hocketUint8;
    case at::kChar:
      return hocketInt8;
    case at::kInt:
      return hocketInt32;
    case at::kUInt32:
      return hocketUint32;
    case at::kLong:
      return hocketInt64;
    case at::kUInt64:
      return hocketUint64;
    case at::kHalf:
      return hocketFloat16;
    case at::kFloat:
      return hocketFloat32;
    case at::kDouble:
      return hocketFloat64;
    case at::kBFloat16:
      return hocketBfloat16;
    case at::kFloat8_e4m3fn:
      return hocketFloat8e4m3;
    case at::kFloat8_e5m2:
      return hocketFloat8e5m2;
    default:
      return std::nullopt;
  }
}

[[noreturn]] void refuse(const Caller& caller, const char* name, const at::Tensor& tensor, const std::string& why) {
  const std::string what = tensor.defined() ? describe(tensor) : "none";
  TORCH_CHECK(false, "hocket rank ", caller.rank, ": ", caller.call, ": ", name, " (", what, ") ", why);
}

void check_place(const Caller& caller, const char* name, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(caller, name, tensor, "is no tensor");
  if (tensor.layout() != at::kStrided) {
    std::ostringstream layout;
    layout << "has layout " << tensor.layout() << "; this call takes dense tensors";
    refuse(caller, name, tensor, layout.str());
  }
  if (tensor.is_quantized())
    refuse(caller, name, tensor, "is quantized; its int_repr() can travel, and its scale beside it");
  if (tensor.device().is_cpu() || tensor.device().is_cuda()) return;
  refuse(caller, name, tensor, "is on " + tensor.device().str() + "; this backend moves CPU and CUDA tensors");
}

std::optional<hocketRedOp_t> logical(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR:
      return hocketLogicalOr;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND:
      return hocketLogicalAnd;
    case c10d::ReduceOp::BXOR:
      return hocketLogicalXor;
    default:
      return std::nullopt;
  }
}

std::optional<hocketRedOp_t> arithmetic(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return hocketSum;
    case c10d::ReduceOp::AVG:
      return hocketAvg;
    case c10d::ReduceOp::PRODUCT:
      return hocketProd;
    case c10d::ReduceOp::MIN:
      return hocketMin;
    case c10d::ReduceOp::MAX:
      return hocketMax;
    case c10d::ReduceOp::BAND:
      return hocketBitAnd;
    case c10d::ReduceOp::BOR:
      return hocketBitOr;
    case c10d::ReduceOp::BXOR:
      return hocketBitXor;
    default:
      return std::nullopt;
  }
}

at::Tensor factor_of(const Caller& caller, const c10d::ReduceOp& op, at::ScalarType type) {
  // By the name that all versions of torch know.
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "hocket rank ", caller.rank, ": ", caller.call, ": PREMUL_SUM has no factor");
  const at::Tensor given = supplement->tensor_factor.defined()
                               ? supplement->tensor_factor.to(at::kCPU)
                               : at::scalar_tensor(supplement->double_factor, at::TensorOptions(at::kDouble));
  at::Tensor factor = given.to(type).contiguous();
  const bool keeps = at::isFloatingType(type) || (type != at::kBool && factor.to(given.scalar_type()).equal(given));
  TORCH_CHECK(keeps && !given.is_complex(), "hocket rank ", caller.rank, ": ", caller.call, ": PREMUL_SUM: the factor ",
              given.item(), " is no ", c10::toString(type));
  return factor;
}

// The elements of a tensor that lies in one piece; complex ones are two real ones.
std::optional<Elements> known(const at::Tensor& tensor) {
  const auto type = type_of(c10::toRealValueType(tensor.scalar_type()));
  if (!type) return std::nullopt;
  const size_t width = tensor.is_complex() ? 2 : 1;
  return Elements{tensor.data_ptr(), static_cast<size_t>(tensor.numel()) * width, *type, width};
}

}  // namespace

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << " of shape " << tensor.sizes();
  return text.str();
}

Elements moved(const Caller& caller, const char* name, const at::Tensor& tensor) {
  check_place(caller, name, tensor);
  if (!tensor.is_contiguous()) refuse(caller, name, tensor, "is not contiguous");
  if (const auto elements = known(tensor)) return *elements;
  return {tensor.data_ptr(), tensor.nbytes(), hocketUint8, static_cast<size_t>(tensor.element_size())};
}

Elements reduced(const Caller& caller, const char* name, const at::Tensor& tensor) {
  check_place(caller, name, tensor);
  if (!tensor.is_non_overlapping_and_dense()) refuse(caller, name, tensor, "is not contiguous");
  const auto elements = known(tensor);
  if (!elements) refuse(caller, name, tensor, "has a type whose elements Hocket cannot combine");
  return *elements;
}

const at::Tensor& only(const Caller& caller, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "hocket rank ", caller.rank, ": ", caller.call, ": takes one tensor, not ",
              tensors.size());
  return tensors.front();
}

int root_of(const Caller& caller, int64_t root, int size) {
  TORCH_CHECK(root >= 0 && root < size, "hocket rank ", caller.rank, ": ", caller.call, ": there is no root ", root,
              " among ", size, " ranks");
  return static_cast<int>(root);
}

void check_one_per_rank(const Caller& caller, const char* name, size_t tensors, int size) {
  TORCH_CHECK(tensors == static_cast<size_t>(size), "hocket rank ", caller.rank, ": ", caller.call, ": ", name, " has ",
              tensors, " tensors; there must be ", size, ", one for each rank");
}

Parts parts_of(const Caller& caller, const char* name, const std::vector<at::Tensor>& tensors) {
  Parts parts;
  std::vector<Elements> all;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string which = std::string(name) + "[" + std::to_string(i) + "]";
    all.push_back(moved(caller, which.c_str(), tensors[i]));
    if (tensors[i].scalar_type() != tensors[0].scalar_type())
      refuse(caller, which.c_str(), tensors[i], "differs from the first, which is " + describe(tensors[0]));
    const bool is_lower = parts.data == nullptr || all[i].data < parts.data;
    if (is_lower && all[i].count > 0) parts.data = all[i].data;
  }
  const size_t bytes = tensors.empty() ? 1 : tensors[0].element_size() / all[0].width;
  for (const Elements& one : all) {
    const auto* begin = static_cast<const char*>(parts.data);
    const auto distance = one.count == 0 ? 0 : static_cast<const char*>(one.data) - begin;
    parts.counts.push_back(one.count);
    parts.offsets.push_back(static_cast<size_t>(distance) / bytes);
    parts.type = one.type;
  }
  return parts;
}

Reduction::Reduction(const Caller& caller, const c10d::ReduceOp& op, at::ScalarType type, hocketComm_t comm) {
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    const at::ScalarType real = c10::toRealValueType(type);
    const at::Tensor factor = factor_of(caller, op, real);
    check(hocketRedOpCreatePreMulSum(&op_, factor.data_ptr(), type_of(real).value(), hocketScalarHostImmediate, comm));
    made_for_ = comm;
    return;
  }
  const auto combined = type == at::kBool ? logical(op.op_) : arithmetic(op.op_);
  const bool by_parts = op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG;  // as complex numbers need
  TORCH_CHECK(combined && (by_parts || !c10::isComplexType(type)), "hocket rank ", caller.rank, ": ", caller.call,
              ": there is no such reduction of ", c10::toString(type), " (number ", static_cast<int>(op.op_), ")");
  op_ = *combined;
}

Reduction::~Reduction() {
  if (made_for_ != nullptr) hocketRedOpDestroy(op_, made_for_);
}

}  // namespace hocket_torch
