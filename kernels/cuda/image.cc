// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "kernels/cuda/image.h"

#include "kernels/cuda/names.h"

#ifdef HOCKET_KERNEL_IMAGE
asm(R"(
  .pushsection .rodata
  .balign 64
  .local hocket_kernel_image
hocket_kernel_image:
  .incbin ")" HOCKET_KERNEL_IMAGE R"("
  .popsection
)");
extern "C" __attribute__((visibility("hidden"))) const char hocket_kernel_image[];
#endif

namespace hocket::device {

const void* kernel_image() {
#ifdef HOCKET_KERNEL_IMAGE
  return hocket_kernel_image;
#else
  return nullptr;
#endif
}

const char* combine_kernel(DataType type) {
  switch (type) {
#define HOCKET_NAME(type, symbol) \
  case DataType::type:            \
    return #symbol;
    HOCKET_COMBINE_KERNELS(HOCKET_NAME)
#undef HOCKET_NAME
    default:
      return nullptr;
  }
}

CodingKernels coding_kernels(CodedForm::Kind kind, DataType type) {
#define HOCKET_NAMES(its_kind, its_type, encoding, decoding) \
  if (kind == CodedForm::Kind::its_kind && type == DataType::its_type) return {#encoding, #decoding};
  HOCKET_CODING_KERNELS(HOCKET_NAMES)
#undef HOCKET_NAMES
  return {};
}

}  // namespace hocket::device
