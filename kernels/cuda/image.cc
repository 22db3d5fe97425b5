// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "kernels/cuda/image.h"

#include "kernels/cuda/names.h"

#ifdef HOCKET_KERNEL_IMAGE
#define HOCKET_IMAGE(name, file)                                                                              \
  asm(".pushsection .rodata\n.balign 64\n.local " #name "\n" #name ":\n.incbin \"" file "\"\n.popsection\n"); \
  extern "C" __attribute__((visibility("hidden"))) const char name[];
HOCKET_IMAGE(hocket_kernel_image, HOCKET_KERNEL_IMAGE)
HOCKET_IMAGE(hocket_multicast_image, HOCKET_MULTICAST_IMAGE)
#undef HOCKET_IMAGE
#endif

namespace hocket::device {

const void* kernel_image() {
#ifdef HOCKET_KERNEL_IMAGE
  return hocket_kernel_image;
#else
  return nullptr;
#endif
}

const void* multicast_image() {
#ifdef HOCKET_KERNEL_IMAGE
  return hocket_multicast_image;
#else
  return nullptr;
#endif
}

#define HOCKET_NAME(its_type, symbol) \
  if (type == DataType::its_type) return #symbol;

const char* combine_kernel(DataType type) {
  HOCKET_COMBINE_KERNELS(HOCKET_NAME)
  return nullptr;
}

// Bits have no sign, and of 8 of them nothing else is combined.
const char* multicast_kernel(DataType type) {
  if (type == DataType::kInt8) type = DataType::kUint8;
  HOCKET_MULTICAST_KERNELS(HOCKET_NAME)
  return nullptr;
}

const char* low_latency_kernel(DataType type) {
  HOCKET_LOW_LATENCY_KERNELS(HOCKET_NAME)
  return nullptr;
}
#undef HOCKET_NAME

CodingKernels coding_kernels(CodedForm::Kind kind, DataType type) {
#define HOCKET_NAMES(its_kind, its_type, encoding, decoding) \
  if (kind == CodedForm::Kind::its_kind && type == DataType::its_type) return {#encoding, #decoding};
  HOCKET_CODING_KERNELS(HOCKET_NAMES)
#undef HOCKET_NAMES
  return {};
}

}  // namespace hocket::device
