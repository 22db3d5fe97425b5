// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What ranks and roots tell each other, from a peer that says anything: it is refused, or what was read, written again,
// reads the same.
#include <cstdlib>

#include "comm/mesh_wire.h"
#include "comm/remote_wire.h"

namespace {

using hocket::Reader;

constexpr int32_t kRanks = 64;

// The first byte of a message is its type, which its reader does not see.
Reader behind_type(std::string_view message) { return Reader(message.substr(1)); }

void check(bool holds) {
  if (!holds) std::abort();
}

void read_all_opinions(std::string_view bytes) {
  Reader reader(bytes);
  hocket::Opinion opinion;
  if (!read_opinion(reader, kRanks, &opinion)) return;
  for (const auto& [rank, report] : opinion.view.reports) {
    check(rank >= 0 && rank < kRanks);
    for (const int32_t accuser : report.accusers) check(accuser >= 0 && accuser < kRanks);
  }
  for (const auto& [rank, where] : opinion.holders) check(rank >= 0 && rank < kRanks);
  const std::string message = opinion_message(opinion);
  Reader again = behind_type(message);
  hocket::Opinion same;
  check(read_opinion(again, kRanks, &same) && same.view.equals(opinion.view) && same.holders == opinion.holders);
}

void read_the_rest(std::string_view bytes) {
  hocket::CallReport report;
  if (Reader reader(bytes); read_report(reader, &report)) {
    const std::string message = report_message(hocket::MessageType::kAnswer, report);
    Reader again = behind_type(message);
    hocket::CallReport same;
    check(read_report(again, &same) && same.text == report.text && same.operation == report.operation);
  }
  hocket::PipeName name;
  uint8_t transport = 0;
  if (Reader reader(bytes); read_offer(reader, &name, &transport)) check(is_pipe(name));
  hocket::PipeEnd end{};
  hocket::LastingStream::Report progress;
  if (Reader reader(bytes); read_stream(reader, &name, &end, &progress)) {
    const std::string message = stream_message(name, end, progress);
    Reader again = behind_type(message);
    hocket::LastingStream::Report same;
    check(read_stream(again, &name, &end, &same) && same.received == progress.received && same.lost == progress.lost);
  }
  hocket::PipeCount count;
  if (Reader reader(bytes); read_count(reader, &count)) {
    const std::string message = count_message(hocket::MessageType::kCount, count);
    Reader again = behind_type(message);
    hocket::PipeCount same;
    check(read_count(again, &same) && same.name == count.name && same.end == count.end && same.rests == count.rests);
    check(same.messages == count.messages && same.asked == count.asked);
  }
  hocket::WindowOffer window;
  if (Reader reader(bytes); read_window(reader, &window) && window.segment_bytes > 0) {
    check(window.offset <= window.segment_bytes && window.bytes <= window.segment_bytes - window.offset);
  }
  hocket::MemoryMessage memory;
  if (Reader reader(bytes); read_memory_message(reader, &memory)) {
    const std::string message = memory_message(memory);
    Reader again = behind_type(message);
    hocket::MemoryMessage same;
    check(read_memory_message(again, &same) && same.number == memory.number && same.offer.bytes == memory.offer.bytes &&
          same.handles() == memory.handles());
  }
  uint32_t number = 0;
  bool is_mapped = false;
  if (Reader reader(bytes); read_memory_answer(reader, &number, &is_mapped)) {
    check(hocket::memory_answer(number, is_mapped).size() == bytes.size() + 1);
  }
  hocket::MulticastMessage multicast;
  if (Reader reader(bytes); read_multicast(reader, &multicast)) {
    check(multicast_message(multicast).substr(1) == bytes);
    check(multicast.handles() == (multicast.bytes > 0 ? 1 : 0));
  }
  uint64_t id = 0;
  hocket::RemoteRequest request;
  if (Reader reader(bytes); read_access(reader, &id, &request)) {
    check(access_message(id, request).substr(1) == bytes);
  }
  hocket::RemoteReply reply;
  if (Reader reader(bytes); read_access_reply(reader, &id, &reply)) {
    check(access_reply_message(id, reply).substr(1) == bytes);
  }
  hocket::Pace pace;
  if (Reader reader(bytes); read_pace(reader, &pace)) {
    const std::string message = pace_message(pace);
    Reader again = behind_type(message);
    hocket::Pace same;
    check(read_pace(again, &same) && same.calls == pace.calls && same.time == pace.time && same.waited == pace.waited);
  }
  hocket::CheckIn check_in;
  if (read_check_in(bytes, &check_in)) check(check_in_message(check_in).size() <= bytes.size());
  (void)hocket::read_reply(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_all_opinions(bytes);
  read_the_rest(bytes);
  return 0;
}
