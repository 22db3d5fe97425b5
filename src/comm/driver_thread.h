// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A thread for functions of the CUDA driver that may take long, as mapping memory may where the device is busy. Nobody
// waits for it for ever: neither who posts nor a call.
#pragma once

#include <functional>

#include "base/system.h"

namespace hocket {

// Runs the function on it, after all that was posted before; the thread is started when it is first needed, and stays.
// False: the system grants no thread, and the function is not run.
bool post_to_driver_thread(System& system, std::function<void()> function);

}  // namespace hocket
