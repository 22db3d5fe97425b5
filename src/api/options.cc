// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// From a caller's configuration and the settings to the options of a communicator.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "api/opening.h"
#include "base/settings.h"
#include "cuda/memory.h"

namespace hocket {
namespace {

// The first layout had nothing after operationTimeoutMs.
constexpr size_t kLeastConfig =
    offsetof(hocketConfig_t, operationTimeoutMs) + sizeof(hocketConfig_t::operationTimeoutMs);
constexpr size_t kMostConfig = size_t{1} << 16;
static_assert(offsetof(hocketConfig_t, reproducibility) + sizeof(hocketConfig_t::reproducibility) ==
              sizeof(hocketConfig_t));

Status refused(const std::string& why) { return Status(Code::kInvalidArgument, "config: " + why); }

// What an older program's configuration lacks has its default; what a newer one has beyond ours is left alone.
Result<hocketConfig_t> complete(const hocketConfig_t& given) {
  constexpr const char* kHint = "initialise it with HOCKET_CONFIG_INITIALIZER";
  if (given.size < kLeastConfig || given.size > kMostConfig || given.size % alignof(hocketConfig_t) != 0) {
    return refused(fmt::format("size is {}: {}", given.size, kHint));
  }
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  std::memcpy(&config, &given, std::min(given.size, sizeof config));
  if (config.magic != HOCKET_CONFIG_MAGIC) return refused(fmt::format("magic is {:#x}: {}", config.magic, kHint));
  return config;
}

// What would change how the program behaves, and is not done, is refused.
Status check(const hocketConfig_t& config) {
  constexpr int64_t kLongest = kLongestDuration / std::chrono::milliseconds(1);
  if (config.operationTimeoutMs < 0 || config.operationTimeoutMs > kLongest) {
    return refused(fmt::format("operationTimeoutMs: {}: it must be 0 to {}", config.operationTimeoutMs, kLongest));
  }
  if (config.blocking != 0 && config.blocking != 1 && config.blocking != HOCKET_CONFIG_UNDEF_INT) {
    return refused(fmt::format("blocking: {}: it must be 0 or 1", config.blocking));
  }
  const int mode = config.reproducibility;
  if (mode != HOCKET_CONFIG_UNDEF_INT && (mode < HOCKET_REPRODUCIBILITY_FAST || mode > HOCKET_REPRODUCIBILITY_EXACT)) {
    return refused(fmt::format("reproducibility: {}: it must be {} to {}", mode, HOCKET_REPRODUCIBILITY_FAST,
                               HOCKET_REPRODUCIBILITY_EXACT));
  }
  if (config.netName != nullptr) {
    return refused(
        fmt::format("netName: '{}': networks are chosen by HOCKET_TRANSPORTS and HOCKET_INTERFACE", config.netName));
  }
  return {};
}

Result<Wishes> force(Wishes wishes, std::string_view algorithms, std::string_view where) {
  Result<Forced> forced = Forced::parse(algorithms, where);
  if (!forced.ok()) return forced.status();
  wishes.options.forced = std::move(*forced);
  return wishes;
}

}  // namespace

Result<Wishes> wishes_of(const hocketConfig_t* given) {
  const Result<Settings>& all = settings();
  if (!all.ok()) return all.status();
  Wishes wishes;
  CommunicatorOptions& options = wishes.options;
  options.operation_timeout = all->operation_timeout;
  options.spin = all->spin;
  options.lanes = all->lanes;
  options.compression = all->compression;
  options.explore = all->explore;
  options.cuda_device = cuda::current_device();
  options.context = cuda::current_context();
  if (!all->plans.empty()) {
    HOCKET_TRY(imported_plans().status());
    options.imported = &*imported_plans();
  }
  options.reproducibility = all->reproducibility;
  if (given != nullptr) {
    const Result<hocketConfig_t> config = complete(*given);
    HOCKET_TRY(config.status());
    HOCKET_TRY(check(*config));
    wishes.blocking = config->blocking != 0;
    if (config->commName != nullptr) options.name = config->commName;
    if (config->operationTimeoutMs != 0) {
      options.operation_timeout = std::chrono::milliseconds(config->operationTimeoutMs);
    }
    if (config->reproducibility != HOCKET_CONFIG_UNDEF_INT) {
      options.reproducibility = static_cast<Reproducibility>(config->reproducibility);
    }
    if (config->algorithm != nullptr) return force(std::move(wishes), config->algorithm, "config: algorithm");
  }
  return force(std::move(wishes), all->algorithm, "HOCKET_ALGORITHM");
}

}  // namespace hocket
