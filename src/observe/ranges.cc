// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/ranges.h"

#if HOCKET_HAS_NVTX
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <string>
#endif

namespace hocket {

#if HOCKET_HAS_NVTX

// The variable by which a tool names its library to NVTX.
const bool kRangesWanted = std::getenv("NVTX_INJECTION64_PATH") != nullptr;

namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("hocket");
  return made;
}

}  // namespace

void begin_range(std::string_view name, uint64_t count) {
  const std::string text(name);
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = text.c_str();
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = count;
  nvtxDomainRangePushEx(domain(), &event);
}

void end_range() { nvtxDomainRangePop(domain()); }

#else

const bool kRangesWanted = false;
void begin_range(std::string_view, uint64_t) {}
void end_range() {}

#endif

}  // namespace hocket
