// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whatever is accepted as a topology, in whichever form, must come back as it was.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "topology/levels.h"
#include "topology/read.h"
#include "topology/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("<graphs")) {
    (void)hocket::topology::read_nccl_graphs(text).ok();
    return 0;
  }
  const hocket::Result<hocket::topology::Reading> reading = hocket::topology::read(text);
  if (!reading.ok()) return 0;
  const hocket::Result<hocket::Topology> again = hocket::parse_topology(hocket::to_text(reading->topology));
  if (!again.ok() || *again != reading->topology) std::abort();
  (void)hocket::topology::levels(reading->topology);
  return 0;
}
