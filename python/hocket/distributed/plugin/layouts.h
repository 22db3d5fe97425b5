// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

namespace hocket_torch {

// Torch hands backends dense tensors only, and says of others that the operator does not exist; after that a batch of
// transfers is never ended and the group of no use. From now on sparse, quantized and oneDNN tensors reach the
// backend, which says what is wrong with which. This is for the whole process: other backends get them, too, and refuse
// them by themselves. But a quantized tensor looks dense to them, who would move its codes without their scale; to
// other backends than ours torch goes on to say that there is no such operator.
void hand_on_all_layouts();

}  // namespace hocket_torch
