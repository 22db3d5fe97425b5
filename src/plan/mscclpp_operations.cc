// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/mscclpp_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace hocket::mscclpp {
namespace {

constexpr size_t kMaxName = 40;

// Of buffers: where packets come from and go to.
enum Packets : uint8_t { kNone = 0, kRead = 1, kReadRest = 2, kWrite = 4, kWriteFar = 8, kInScratch = 16 };

struct Kind {
  std::string_view name;
  Action action;
  uint8_t packets = kNone;
  bool signals = false;
};

constexpr std::array kKinds = {
    Kind{"nop", Action::kNothing},
    Kind{"flush", Action::kNothing},
    Kind{"signal", Action::kSignal},
    Kind{"rlxsignal", Action::kSignal},
    Kind{"wait", Action::kWait},
    Kind{"rlxwait", Action::kWait},
    Kind{"barrier", Action::kBarrier},
    Kind{"copy", Action::kMove},
    Kind{"put", Action::kMove},
    Kind{"get", Action::kMove},
    Kind{"pws", Action::kMove, kNone, true},
    Kind{"pwsf", Action::kMove, kNone, true},
    Kind{"ppkt", Action::kMove, kWrite},
    Kind{"rppkt", Action::kMove, kRead | kWrite},
    Kind{"cpkt", Action::kMove, kInScratch},
    Kind{"tpkt", Action::kMove, kWrite},
    Kind{"upkt", Action::kMove, kRead},
    Kind{"re", Action::kCombine},
    Kind{"res", Action::kCombine},
    Kind{"rre", Action::kCombine},
    Kind{"rres", Action::kCombine},
    Kind{"repkt", Action::kCombine, kReadRest},
    Kind{"respkt", Action::kCombine, kReadRest | kWriteFar},
};

// What a thread block calls by a number; -1: nothing.
int32_t named(const Numbers& numbers, const std::string& type, int32_t id) {
  const auto found = numbers.find(type);
  if (found == numbers.end() || id < 0 || static_cast<size_t>(id) >= found->second.size()) return -1;
  return found->second[static_cast<size_t>(id)];
}

int32_t channel(const Scope& scope, const std::string& type, int32_t id, Reader& reader) {
  const int32_t number = named(*scope.channels, type, named(scope.own_channels, type, id));
  if (number >= 0) return number;
  return reader.wrong("channel_ids", fmt::format("has {}, which is no channel of its thread block", id));
}

int32_t chunks_of(const Gpu& gpu, Buffer buffer) {
  return buffer == Buffer::kSend ? gpu.input_chunks : buffer == Buffer::kRecv ? gpu.output_chunks : gpu.scratch_chunks;
}

Span read_span(const Json& json, const Scope& scope, const std::string& type, Reader& reader) {
  Span span;
  span.gpu = scope.gpu;
  if (json.contains("buffer_id")) {
    const int32_t id = reader.integer("buffer_id", 0, kMaxList);
    const int32_t number = named(scope.own_buffers, type, id);
    if (number < 0 || static_cast<size_t>(number) >= scope.buffers->size()) {
      reader.wrong("buffer_id", fmt::format("{} is no remote buffer of its thread block", id));
      return span;
    }
    span.gpu = (*scope.buffers)[static_cast<size_t>(number)].gpu;
    span.run.buffer = (*scope.buffers)[static_cast<size_t>(number)].buffer;
  } else {
    const std::optional<Buffer> buffer = buffer_of(reader.text("type"));
    if (!buffer.has_value()) reader.wrong("type", "is not i, o or s");
    span.run.buffer = buffer.value_or(Buffer::kSend);
  }
  const int32_t chunks = chunks_of((*scope.gpus)[static_cast<size_t>(span.gpu)], span.run.buffer);
  span.run.first = reader.integer("index", 0, chunks - 1);
  span.run.count = reader.integer("size", 1, chunks - span.run.first);
  return span;
}

Status read_spans(const Json& list, const Scope& scope, const std::string& type, const std::string& where,
                  std::vector<Span>& spans) {
  for (const Json& json : list) {
    Reader reader(json, where);
    HOCKET_TRY(reader.status());
    spans.push_back(read_span(json, scope, type, reader));
    HOCKET_TRY(reader.status());
  }
  return {};
}

Status check_lengths(const Operation& operation, const std::string& where) {
  const size_t sources = operation.sources.size();
  const size_t destinations = operation.destinations.size();
  if (sources == 0 || destinations == 0) return refused(where + ": it has no source or no destination");
  const bool pairs = operation.action == Action::kMove && sources > 1;
  if (pairs && sources != destinations)
    return refused(fmt::format("{}: it moves {} sources to {} destinations", where, sources, destinations));
  for (size_t i = 0; i < std::max(sources, destinations); ++i) {
    const int32_t wanted = operation.sources[pairs ? i : 0].run.count;
    if ((i < sources && operation.sources[i].run.count != wanted) ||
        (i < destinations && operation.destinations[i].run.count != wanted)) {
      return refused(where + ": its sources and destinations are not equally long");
    }
  }
  return {};
}

void mark_packets(const Kind& kind, Rank rank, Operation& operation) {
  const auto in_scratch = [&](const Span& span) {
    return (kind.packets & kInScratch) != 0 && span.run.buffer == Buffer::kScratch;
  };
  for (Span& span : operation.sources) span.packets = (kind.packets & (kRead | kReadRest)) != 0 || in_scratch(span);
  if ((kind.packets & kReadRest) != 0) operation.sources[0].packets = false;
  for (Span& span : operation.destinations) {
    span.packets =
        (kind.packets & kWrite) != 0 || in_scratch(span) || ((kind.packets & kWriteFar) != 0 && span.gpu != rank);
  }
}

}  // namespace

std::optional<Buffer> buffer_of(std::string_view letter) {
  if (letter == "i") return Buffer::kSend;
  if (letter == "o") return Buffer::kRecv;
  if (letter == "s") return Buffer::kScratch;
  return std::nullopt;
}

Result<Operation> parse_operation(const Json& json, const Scope& scope, const std::string& where) {
  Reader reader(json, where);
  Operation operation;
  operation.name = reader.text("name");
  HOCKET_TRY(reader.status());
  const auto* kind = std::ranges::find(kKinds, operation.name, &Kind::name);
  if (kind == kKinds.end())
    return refused(fmt::format("{}: '{}' is not known here", where, operation.name.substr(0, kMaxName)));
  if (json.contains("tbg_info"))
    return refused(fmt::format("{}: '{}' by a group of thread blocks is not known here", where, operation.name));
  operation.action = kind->action;
  operation.signals = kind->signals;
  const std::string type = json.contains("channel_type") ? reader.text("channel_type") : std::string();
  if (kind->action == Action::kSignal || kind->action == Action::kWait || kind->signals) {
    for (const int32_t id : reader.integers("channel_ids", kMaxList))
      operation.channels.push_back(channel(scope, type, id, reader));
  }
  if (kind->action == Action::kBarrier) {
    operation.barrier = reader.integer("barrier_id", 0, kMaxBlocks);
    operation.blocks = reader.integer("num_threadblocks", 1, kMaxBlocks);
  }
  if (kind->action == Action::kMove || kind->action == Action::kCombine) {
    const Json& sources = reader.list("src_buff", kMaxSources);
    const Json& destinations = reader.list("dst_buff", kMaxDestinations);
    HOCKET_TRY(reader.status());
    HOCKET_TRY(read_spans(sources, scope, type, where, operation.sources));
    HOCKET_TRY(read_spans(destinations, scope, type, where, operation.destinations));
    HOCKET_TRY(check_lengths(operation, where));
    mark_packets(*kind, scope.gpu, operation);
  }
  HOCKET_TRY(reader.status());
  return operation;
}

}  // namespace hocket::mscclpp
