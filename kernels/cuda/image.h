// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The device kernels as the library carries them: code of several devices in one image, which the driver loads.
#pragma once

#include "kernels/coded_form.h"
#include "kernels/kernels.h"

namespace hocket::device {

// Null: the library was built without nvcc.
const void* kernel_image();
// The oldest devices that it has code for, by the first number of their compute capability.
inline constexpr int kOldestMajor = 8;

// The symbol of the kernel that combines elements of the type, whose argument is a Batch; null: there is none.
const char* combine_kernel(DataType type);

// The same of multicast kernels, which lie in an image of their own, for devices from compute capability 9.0 on.
const void* multicast_image();
const char* multicast_kernel(DataType type);

// The same of that whose argument is a LowLatencyWork.
const char* low_latency_kernel(DataType type);

// Those that make messages of values of the type, and values of messages; their argument is a CodingWork.
struct CodingKernels {
  const char* encode = nullptr;
  const char* decode = nullptr;
};
CodingKernels coding_kernels(CodedForm::Kind kind, DataType type);

}  // namespace hocket::device
