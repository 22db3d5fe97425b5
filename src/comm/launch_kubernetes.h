// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Operators that start pods. Their numbers are of pods, so they count only where nobody starts several processes in a
// pod and says so by variables of his own.
#pragma once

#include <optional>

#include "comm/launch.h"

namespace hocket {

class Variables;

// TFJob: a list of addresses as JSON. Chief (or master) before workers.
std::optional<Launch> from_tf_config(Variables& variables);
// TrainJob, which speaks to torchrun; for programs that do not start one.
std::optional<Launch> from_trainer(Variables& variables);
// TrainJob for JAX.
std::optional<Launch> from_jax(Variables& variables);
// PyTorchJob, and torch.distributed's "env://".
std::optional<Launch> from_rank_alone(Variables& variables);

}  // namespace hocket
