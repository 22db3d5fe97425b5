// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What NVTX loads in place of a profiler: writes each range that begins or ends to the file that NVTX_TOOL_LOG names.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::FILE* log() {
  static std::FILE* const file = std::fopen(std::getenv("NVTX_TOOL_LOG"), "w");
  return file;
}

nvtxDomainHandle_t create(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(new std::string(name));  // NVTX gives it back with each call
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  std::fprintf(log(), "%s: %s %llu\n", reinterpret_cast<const std::string*>(domain)->c_str(), event->message.ascii,
               static_cast<unsigned long long>(event->payload.ullValue));
  return std::fflush(log());
}

int pop(nvtxDomainHandle_t) {
  std::fprintf(log(), "end\n");
  return std::fflush(log());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}
