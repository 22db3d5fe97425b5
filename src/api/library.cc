// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Version, error texts, build facts and algorithm names of the C API.
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "api/build_info.h"
#include "api/session.h"
#include "base/caught.h"
#include "choose/choose.h"
#include "hocket/hocket.h"

namespace {

using hocket::Code;
using hocket::guarded;
using hocket::report;
using hocket::Status;

std::map<std::string, std::string, std::less<>> names_by_collective() {
  std::map<std::string, std::string, std::less<>> names;
  for (const hocket::Builder& builder : hocket::builders()) {
    names[std::string(name(builder.collective))] = hocket::algorithm_names(builder.collective);
  }
  return names;
}

}  // namespace

hocketResult_t hocketGetVersion(int* version) {
  if (version == nullptr) return report(Status(Code::kInvalidArgument, "version is NULL"));
  *version = HOCKET_VERSION_CODE;
  return hocketSuccess;
}

const char* hocketGetErrorString(hocketResult_t result) {
  switch (result) {
    case hocketSuccess:
      return "no error";
    case hocketUnhandledCudaError:
      return "unhandled CUDA error";
    case hocketSystemError:
      return "the operating system refused a request";
    case hocketInternalError:
      return "internal error";
    case hocketInvalidArgument:
      return "invalid argument";
    case hocketInvalidUsage:
      return "invalid usage";
    case hocketRemoteError:
      return "a remote rank failed or left";
    case hocketInProgress:
      return "operation in progress";
    case hocketTimeout:
      return "timed out";
    case hocketNumResults:
      break;
  }
  return "unknown result code";
}

const char* hocketGetLastError(hocketComm_t comm) {
  const auto look = [comm]() -> const char* {
    const auto pin = hocket::sessions().pin(comm);
    if (!pin) return hocket::last_error_of_thread();
    hocket::Session& session = *pin;
    const Status opened = session.opened();
    const std::lock_guard lock(session.mutex);
    if (!session.last_error.empty()) return hocket::keep_for_thread(session.last_error);
    if (!opened.ok()) return hocket::keep_for_thread(opened.message());
    return hocket::keep_for_thread(session.communicator->mesh().status().message());
  };
  return hocket::caught(look, [](const Status&) { return "out of memory"; });
}

hocketResult_t hocketGetBuildInfo(const hocketBuildInfo_t** entries, int* count) {
  return guarded([&] {
    if (entries == nullptr || count == nullptr)
      return report(Status(Code::kInvalidArgument, "entries or count is NULL"));
    *entries = hocket::build_info().data();
    *count = static_cast<int>(hocket::build_info().size());
    return hocketSuccess;
  });
}

const char* hocketGetAlgorithms(const char* collective) {
  const auto look = [collective]() -> const char* {
    static const auto names = names_by_collective();
    if (collective == nullptr) return nullptr;
    const auto found = names.find(std::string_view(collective));
    return found == names.end() ? nullptr : found->second.c_str();
  };
  return hocket::caught(look, [](const Status&) -> const char* { return nullptr; });
}
