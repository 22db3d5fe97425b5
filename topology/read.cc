// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/read.h"

#include "topology/text.h"

namespace hocket::topology {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

Result<Reading> read(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return Status(Code::kInvalidArgument, "line 1: there is no topology, only blanks");
  const char start = text[begin];
  if (start == '<') {
    const Result<std::unique_ptr<XmlElement>> root = parse_xml(text);
    if (!root.ok()) return root.status();
    if ((*root)->name == "system") return read_nccl(**root);
    if ((*root)->name == "topology") return read_hwloc(**root);
    return (*root)->fault("no kind of topology begins like this; known are <system> (NCCL) and <topology> (hwloc)");
  }
  // The head of a matrix begins with a device, maybe after a terminal's code to underline it.
  if (start == 'G' || start == '\x1b') return read_smi(text);
  if (begins_like_astra(text)) return read_astra(text);
  Result<Topology> own = parse_topology(text);
  if (!own.ok()) return own.status();
  return Reading{std::move(*own), {}};
}

}  // namespace hocket::topology
