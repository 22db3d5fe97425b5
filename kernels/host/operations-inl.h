// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The operations of element.h on vectors, and on pairs and quads of them. Included once per instruction set.

#if defined(HOCKET_HOST_OPERATIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_OPERATIONS_INL
#undef HOCKET_HOST_OPERATIONS_INL
#else
#define HOCKET_HOST_OPERATIONS_INL
#endif

#include "kernels/host/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

template <typename V>
HWY_INLINE V multiply(V a, V b) {
  using Tag = hn::DFromV<V>;
  if constexpr (sizeof(hn::TFromV<V>) == 1) {
    // There is no product of bytes; those of 16-bit lanes hold the products of their lower bytes.
    const hn::Repartition<uint16_t, Tag> wide;
    const auto upper = hn::Set(wide, uint16_t{0xff00});
    const auto x = hn::BitCast(wide, a), y = hn::BitCast(wide, b);
    const auto odd = hn::Mul(hn::ShiftRight<8>(x), hn::And(y, upper));
    return hn::BitCast(Tag(), hn::Or(odd, hn::AndNot(upper, hn::Mul(x, y))));
  } else {
    return hn::Mul(a, b);
  }
}

// NaN propagates, whichever operand it is.
template <ReduceOp op, typename V>
HWY_INLINE V extreme(V a, V b) {
  const V chosen = op == ReduceOp::kMax ? hn::Max(a, b) : hn::Min(a, b);
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    // x86 gives the second operand when either is NaN.
    const V right = HWY_ARCH_X86 ? chosen : hn::IfThenElse(hn::IsNaN(b), b, chosen);
    return hn::IfThenElse(hn::IsNaN(a), a, right);
  } else {
    return chosen;
  }
}

template <ReduceOp op, typename V>
HWY_INLINE V logical(V a, V b) {
  const hn::DFromV<V> tag;
  const auto zero = hn::Zero(tag), one = hn::Set(tag, 1);
  if constexpr (op == ReduceOp::kLogicalAnd) {
    return hn::IfThenZeroElse(hn::Or(hn::Eq(a, zero), hn::Eq(b, zero)), one);
  } else if constexpr (op == ReduceOp::kLogicalOr) {
    return hn::IfThenZeroElse(hn::Eq(hn::Or(a, b), zero), one);
  } else {
    return hn::IfThenElseZero(hn::Xor(hn::Eq(a, zero), hn::Eq(b, zero)), one);
  }
}

// `a` is the earlier operand.
template <ReduceOp op, typename V>
HWY_INLINE V operate(V a, V b) {
  if constexpr (op == ReduceOp::kSum) return hn::Add(a, b);
  if constexpr (op == ReduceOp::kProd) return multiply(a, b);
  if constexpr (op == ReduceOp::kMax || op == ReduceOp::kMin) return extreme<op>(a, b);
  if constexpr (op == ReduceOp::kBitAnd) return hn::And(a, b);
  if constexpr (op == ReduceOp::kBitOr) return hn::Or(a, b);
  if constexpr (op == ReduceOp::kBitXor) return hn::Xor(a, b);
  if constexpr (op >= ReduceOp::kLogicalAnd) return logical<op>(a, b);
}
template <ReduceOp op>
HWY_INLINE Pair operate(Pair a, Pair b) {
  return {operate<op>(a.a, b.a), operate<op>(a.b, b.b)};
}
template <ReduceOp op>
HWY_INLINE Quad operate(Quad a, Quad b) {
  return {operate<op>(a.a, b.a), operate<op>(a.b, b.b)};
}

#endif  // vectors

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_OPERATIONS_INL
