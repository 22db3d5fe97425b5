// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The kernels of multicast.h, for devices from compute capability 9.0 on. The second dimension of the grid numbers the
// tasks of the batch.
#include "kernels/cuda/multicast.h"

#include "kernels/cuda/names.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "multimem is for compute capability 9.0 and later"
#endif

namespace hocket::device {

// What the switch is told. Of all types 16 bytes: of those that it takes one by one, so many of them.
#define HOCKET_LOAD_WORDS(how, pack, address)                                                           \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." how " {%0, %1, %2, %3}, [%4];"                  \
               : "=r"(pack.values[0]), "=r"(pack.values[1]), "=r"(pack.values[2]), "=r"(pack.values[3]) \
               : "l"(address)                                                                           \
               : "memory")
#define HOCKET_LOAD_WORD(how, word, address) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." how " %0, [%1];" : "=r"(word) : "l"(address) : "memory")
#define HOCKET_LOAD_PAIR(how, pair, address) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." how " %0, [%1];" : "=l"(pair) : "l"(address) : "memory")

template <DataType type>
inline constexpr bool is_signed = std::is_signed_v<typename element::Of<type>::Storage>;

template <DataType type, ReduceOp op>
__device__ uint64_t reduce_pair(const std::byte* address) {
  uint64_t pair = 0;
  if constexpr (op == ReduceOp::kBitAnd) HOCKET_LOAD_PAIR("and.b64", pair, address);
  if constexpr (op == ReduceOp::kBitOr) HOCKET_LOAD_PAIR("or.b64", pair, address);
  if constexpr (op == ReduceOp::kBitXor) HOCKET_LOAD_PAIR("xor.b64", pair, address);
  if constexpr (op == ReduceOp::kSum && type == DataType::kFloat64) HOCKET_LOAD_PAIR("add.f64", pair, address);
  if constexpr (op == ReduceOp::kSum && type != DataType::kFloat64) HOCKET_LOAD_PAIR("add.u64", pair, address);
  if constexpr (op == ReduceOp::kMin && is_signed<type>) HOCKET_LOAD_PAIR("min.s64", pair, address);
  if constexpr (op == ReduceOp::kMin && !is_signed<type>) HOCKET_LOAD_PAIR("min.u64", pair, address);
  if constexpr (op == ReduceOp::kMax && is_signed<type>) HOCKET_LOAD_PAIR("max.s64", pair, address);
  if constexpr (op == ReduceOp::kMax && !is_signed<type>) HOCKET_LOAD_PAIR("max.u64", pair, address);
  return pair;
}

template <DataType type, ReduceOp op>
__device__ uint32_t reduce_word(const std::byte* address) {
  uint32_t word = 0;
  if constexpr (op == ReduceOp::kSum) HOCKET_LOAD_WORD("add.u32", word, address);
  if constexpr (op == ReduceOp::kMin && is_signed<type>) HOCKET_LOAD_WORD("min.s32", word, address);
  if constexpr (op == ReduceOp::kMin && !is_signed<type>) HOCKET_LOAD_WORD("min.u32", word, address);
  if constexpr (op == ReduceOp::kMax && is_signed<type>) HOCKET_LOAD_WORD("max.s32", word, address);
  if constexpr (op == ReduceOp::kMax && !is_signed<type>) HOCKET_LOAD_WORD("max.u32", word, address);
  return word;
}

struct DeviceSwitch {
  template <DataType type, ReduceOp op>
  __device__ MulticastPack reduce(const std::byte* address) const {
    MulticastPack pack;
    constexpr bool kInWords = sizeof(typename element::Of<type>::Storage) == 4 && op <= ReduceOp::kMin;
    if constexpr (type == DataType::kFloat32) {
      HOCKET_LOAD_WORDS("add.v4.f32", pack, address);
    } else if constexpr (type == DataType::kFloat16) {
      HOCKET_LOAD_WORDS("add.acc::f32.v4.f16x2", pack, address);
    } else if constexpr (type == DataType::kBfloat16) {
      HOCKET_LOAD_WORDS("add.acc::f32.v4.bf16x2", pack, address);
    } else if constexpr (kInWords) {
      HOCKET_UNROLLED
      for (int i = 0; i < 4; ++i) pack.values[i] = reduce_word<type, op>(address + 4 * i);
    } else {
      HOCKET_UNROLLED
      for (int i = 0; i < 2; ++i) {
        const uint64_t pair = reduce_pair<type, op>(address + 8 * i);
        pack.values[2 * i] = static_cast<uint32_t>(pair);
        pack.values[2 * i + 1] = static_cast<uint32_t>(pair >> 32);
      }
    }
    return pack;
  }

  // The type says how many bytes; a switch does not look at them.
  __device__ void store(std::byte* address, const MulticastPack& pack) const {
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%4], {%0, %1, %2, %3};" ::"r"(pack.values[0]),
                 "r"(pack.values[1]), "r"(pack.values[2]), "r"(pack.values[3]), "l"(address)
                 : "memory");
  }
};

__device__ bool block_may_begin(const Batch& batch) {
  __shared__ bool may;
  if (threadIdx.x == 0) may = may_begin(batch);
  __syncthreads();
  return may;
}

#define HOCKET_KERNEL(type, symbol)                                                                                    \
  extern "C" __global__ void __launch_bounds__(kBlockThreads, kMulticastBlocks)                                        \
      symbol(const __grid_constant__ Batch batch) {                                                                    \
    if (!block_may_begin(batch)) return;                                                                               \
    const Task& task = batch.task[blockIdx.y];                                                                         \
    const DeviceSwitch fabric;                                                                                         \
    MulticastTask<DataType::type, DeviceSwitch>(batch, address_of(batch, task, 0), address_of(batch, task, 1), fabric) \
        .run(task.count, {uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x});         \
  }
HOCKET_MULTICAST_KERNELS(HOCKET_KERNEL)
#undef HOCKET_KERNEL

}  // namespace hocket::device
