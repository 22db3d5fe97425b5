// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Limits are generous for what we write and small for what a broken peer could make us hold.
#include "comm/mesh_wire.h"

#include <fmt/format.h>

#include <algorithm>

#include "choose/tuning.h"

namespace hocket {
namespace {

constexpr size_t kMaxName = 255;
constexpr size_t kMaxAddress = 128;
constexpr size_t kMaxInterface = 32;
constexpr size_t kMaxAddresses = 4;
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxNeighbours = 32;
constexpr uint8_t kAdmitted = 1;
constexpr uint8_t kRefused = 2;
static_assert(6 * kMaxName + (kMaxAddresses + 1) * (kMaxAddress + kMaxInterface + 8) + kMaxTuningText +
                  cuda::kMaxDevicesText + 68 <=
              kMaxPeerBytes);

Writer message(MessageType type) {
  Writer writer;
  writer.u8(static_cast<uint8_t>(type));
  return writer;
}

void write_status(Writer& writer, const Status& status) {
  writer.u8(static_cast<uint8_t>(status.code()));
  writer.text(std::string_view(status.message()).substr(0, kMaxText));
}

bool read_status(Reader& reader, Status* status) {
  const uint8_t code = reader.u8();
  std::string text = reader.text(kMaxText);
  if (!reader.ok() || code > static_cast<uint8_t>(Code::kTimeout)) return false;
  *status = code == 0 ? Status() : Status(static_cast<Code>(code), std::move(text));
  return true;
}

bool read_rank(Reader& reader, int32_t ranks, int32_t* rank) {
  *rank = reader.i32();
  return reader.ok() && *rank >= 0 && *rank < ranks;
}

bool read_report_of(Reader& reader, int32_t ranks, View* view) {
  int32_t rank = 0;
  if (!read_rank(reader, ranks, &rank)) return false;
  View::Report& report = view->reports[rank];
  report.how = static_cast<Absence>(reader.u8());
  report.text = reader.text(kMaxText);
  for (uint32_t left = reader.u32(); left > 0; --left) {
    int32_t accuser = 0;
    if (!read_rank(reader, ranks, &accuser)) return false;
    if (!report.accusers.empty() && accuser <= report.accusers.back()) return false;
    report.accusers.push_back(accuser);
  }
  return reader.ok() && report.how >= Absence::kUnreachable && report.how <= Absence::kLeft;
}

template <size_t kSize>
void write_bytes(Writer& writer, const std::array<char, kSize>& bytes) {
  writer.raw({bytes.data(), kSize});
}

template <size_t kSize>
void read_bytes(Reader& reader, std::array<char, kSize>& bytes) {
  const std::string read = reader.raw(kSize);
  std::copy_n(read.begin(), std::min(read.size(), kSize), bytes.begin());
}

void write_memory(Writer& writer, const cuda::MemoryOffer& offer) {
  writer.u8(static_cast<uint8_t>(offer.way));
  for (const uint64_t number : {offer.process, offer.address, offer.bytes, offer.allocation}) writer.u64(number);
  write_bytes(writer, offer.handle.bytes);
  write_bytes(writer, offer.device);
  writer.u32(offer.reached_count);
  for (uint32_t i = 0; i < offer.reached_count; ++i) write_bytes(writer, offer.reached[i]);
}

bool read_memory(Reader& reader, cuda::MemoryOffer* offer) {
  offer->way = static_cast<cuda::MemoryOffer::Way>(reader.u8());
  for (uint64_t* number : {&offer->process, &offer->address, &offer->bytes, &offer->allocation}) *number = reader.u64();
  read_bytes(reader, offer->handle.bytes);
  read_bytes(reader, offer->device);
  offer->reached_count = reader.u32();
  if (!reader.ok() || !offer->makes_sense()) return false;
  for (uint32_t i = 0; i < offer->reached_count; ++i) read_bytes(reader, offer->reached[i]);
  return reader.ok();
}

void write_end(Writer& writer, const PipeName& name, PipeEnd end) {
  writer.u8(static_cast<uint8_t>(name.pipe_class));
  writer.i32(name.lane);
  writer.u8(static_cast<uint8_t>(end));
}

void read_end(Reader& reader, PipeName* name, PipeEnd* end) {
  name->pipe_class = static_cast<PipeClass>(reader.u8());
  name->lane = reader.i32();
  *end = static_cast<PipeEnd>(reader.u8());
}

std::string_view bounded(std::string_view text, size_t limit) { return text.substr(0, limit); }

bool read_holder(Reader& reader, int32_t ranks, Opinion* opinion) {
  int32_t rank = 0;
  if (!read_rank(reader, ranks, &rank)) return false;
  Whereabouts& where = opinion->holders[rank];
  where.collectives = reader.u32();
  where.call = reader.text(kMaxName);
  where.awaited = reader.i32();
  where.waited_ms = reader.u32();
  return reader.ok() && where.awaited >= -1 && where.awaited < ranks;
}

}  // namespace

void write_peer(Writer& writer, const PeerInfo& peer) {
  writer.i32(peer.rank);
  writer.text(bounded(peer.host_identity, kMaxName));
  writer.u64(peer.process);
  writer.text(bounded(peer.host_name, kMaxName));
  writer.i32(peer.pid);
  writer.text(bounded(peer.kernel, kMaxName));
  writer.text(bounded(peer.cpus, kMaxName));
  const size_t addresses = std::min(peer.addresses.size(), kMaxAddresses);
  writer.u8(static_cast<uint8_t>(addresses));
  for (size_t i = 0; i < addresses; ++i) {
    writer.text(bounded(peer.addresses[i], kMaxAddress));
    writer.text(i < peer.interfaces.size() ? bounded(peer.interfaces[i], kMaxInterface) : "");
  }
  writer.text(bounded(peer.local_address, kMaxAddress));
  writer.u64(peer.max_message);
  writer.u64(peer.pipe_memory);
  writer.text(bounded(peer.transports, kMaxName));
  writer.text(bounded(peer.presence, kMaxName));
  writer.text(bounded(peer.devices, cuda::kMaxDevicesText));
  writer.text(bounded(peer.tuning, kMaxTuningText));
}

bool read_peer(Reader& reader, PeerInfo* peer) {
  peer->rank = reader.i32();
  peer->host_identity = reader.text(kMaxName);
  peer->process = reader.u64();
  peer->host_name = reader.text(kMaxName);
  peer->pid = reader.i32();
  peer->kernel = reader.text(kMaxName);
  peer->cpus = reader.text(kMaxName);
  const size_t addresses = reader.u8();
  if (addresses > kMaxAddresses) reader.fail();
  peer->addresses.clear();
  peer->interfaces.clear();
  for (size_t i = 0; i < addresses && reader.ok(); ++i) {
    peer->addresses.push_back(reader.text(kMaxAddress));
    peer->interfaces.push_back(reader.text(kMaxInterface));
  }
  peer->local_address = reader.text(kMaxAddress);
  peer->max_message = reader.u64();
  peer->pipe_memory = reader.u64();
  peer->transports = reader.text(kMaxName);
  peer->presence = reader.text(kMaxName);
  peer->devices = reader.text(cuda::kMaxDevicesText);
  peer->tuning = reader.text(kMaxTuningText);
  return reader.ok();
}

std::string plain_message(MessageType type) { return message(type).take(); }

std::string opinion_message(const Opinion& opinion) {
  Writer writer = message(MessageType::kOpinion);
  writer.u8(opinion.decided ? 1 : 0);
  writer.i32(opinion.view.reporter);
  write_status(writer, opinion.view.cause);
  writer.u32(static_cast<uint32_t>(opinion.view.reports.size()));
  for (const auto& [rank, report] : opinion.view.reports) {
    writer.i32(rank);
    writer.u8(static_cast<uint8_t>(report.how));
    writer.text(bounded(report.text, kMaxText));
    writer.u32(static_cast<uint32_t>(report.accusers.size()));
    for (const int32_t accuser : report.accusers) writer.i32(accuser);
  }
  writer.u32(static_cast<uint32_t>(opinion.holders.size()));
  for (const auto& [rank, where] : opinion.holders) {
    writer.i32(rank);
    writer.u32(where.collectives);
    writer.text(bounded(where.call, kMaxName));
    writer.i32(where.awaited);
    writer.u32(where.waited_ms);
  }
  return writer.take();
}

bool read_opinion(Reader& reader, int32_t ranks, Opinion* opinion) {
  const uint8_t decided = reader.u8();
  opinion->decided = decided == 1;
  opinion->view.reporter = reader.i32();
  if (!read_status(reader, &opinion->view.cause) || decided > 1) return false;
  if (opinion->view.reporter < -1 || opinion->view.reporter >= ranks) return false;
  for (uint32_t left = reader.u32(); left > 0; --left) {
    if (!read_report_of(reader, ranks, &opinion->view)) return false;
  }
  for (uint32_t left = reader.u32(); left > 0; --left) {
    if (!read_holder(reader, ranks, opinion)) return false;
  }
  return reader.finished();
}

std::string offer_message(const PipeName& name, uint8_t transport) {
  Writer writer = message(MessageType::kOffer);
  writer.u8(static_cast<uint8_t>(name.pipe_class));
  writer.i32(name.lane);
  writer.u8(transport);
  return writer.take();
}

bool read_offer(Reader& reader, PipeName* name, uint8_t* transport) {
  const uint8_t pipe_class = reader.u8();
  name->lane = reader.i32();
  *transport = reader.u8();
  name->pipe_class = static_cast<PipeClass>(pipe_class);
  return reader.finished() && is_pipe(*name);
}

std::string stream_message(const PipeName& name, PipeEnd ours, const LastingStream::Report& report) {
  Writer writer = message(MessageType::kStream);
  write_end(writer, name, ours);
  writer.u16(report.connection);
  writer.u8(report.lost ? 1 : 0);
  writer.u64(report.received);
  writer.u32(report.kept);
  return writer.take();
}

bool read_stream(Reader& reader, PipeName* name, PipeEnd* theirs, LastingStream::Report* report) {
  read_end(reader, name, theirs);
  report->connection = reader.u16();
  report->lost = reader.u8() != 0;
  report->received = reader.u64();
  report->kept = reader.u32();
  return reader.finished() && is_pipe(*name) && *theirs <= PipeEnd::kReceiver;
}

bool is_pipe(const PipeName& name) {
  return name.pipe_class <= PipeClass::kPointToPoint && name.lane >= 0 && name.lane <= UINT16_MAX;
}

std::string window_message(const WindowOffer& offer) {
  Writer writer = message(MessageType::kWindow);
  writer.u32(offer.number);
  writer.u64(offer.bytes);
  writer.u64(offer.segment_bytes);
  writer.u64(offer.offset);
  writer.u8(offer.device ? 1 : 0);
  if (offer.device) write_memory(writer, *offer.device);
  return writer.take();
}

size_t WindowOffer::handles() const {
  if (device) return MemoryMessage{number, *device}.handles();
  return segment_bytes == 0 ? 0 : 1;
}

bool read_window(Reader& reader, WindowOffer* offer) {
  offer->number = reader.u32();
  offer->bytes = reader.u64();
  offer->segment_bytes = reader.u64();
  offer->offset = reader.u64();
  const bool inside = offer->offset <= offer->segment_bytes && offer->bytes <= offer->segment_bytes - offer->offset;
  const bool is_device = reader.u8() != 0;
  if (is_device && !read_memory(reader, &offer->device.emplace())) return false;
  if (is_device && offer->device->bytes != offer->segment_bytes) return false;
  return reader.finished() && (offer->segment_bytes == 0 || inside);
}

std::string memory_message(const MemoryMessage& memory) {
  Writer writer = message(MessageType::kMemory);
  writer.u32(memory.number);
  write_memory(writer, memory.offer);
  return writer.take();
}

bool read_memory_message(Reader& reader, MemoryMessage* memory) {
  memory->number = reader.u32();
  return read_memory(reader, &memory->offer) && reader.finished();
}

std::string memory_answer(uint32_t number, bool is_mapped) {
  Writer writer = message(MessageType::kMemoryAnswer);
  writer.u32(number);
  writer.u8(is_mapped ? 1 : 0);
  return writer.take();
}

bool read_memory_answer(Reader& reader, uint32_t* number, bool* is_mapped) {
  *number = reader.u32();
  *is_mapped = reader.u8() != 0;
  return reader.finished();
}

std::string withdrawal_message(uint32_t number) {
  Writer writer = message(MessageType::kWithdrawal);
  writer.u32(number);
  return writer.take();
}

std::string multicast_message(const MulticastMessage& multicast) {
  Writer writer = message(MessageType::kMulticast);
  writer.u32(multicast.window);
  writer.u8(static_cast<uint8_t>(multicast.word));
  writer.u64(multicast.bytes);
  return writer.take();
}

bool read_multicast(Reader& reader, MulticastMessage* multicast) {
  multicast->window = reader.u32();
  multicast->word = static_cast<MulticastMessage::Word>(reader.u8());
  multicast->bytes = reader.u64();
  const bool has_bytes = multicast->bytes > 0;
  return reader.finished() && multicast->word <= MulticastMessage::Word::kRefused &&
         has_bytes == (multicast->word == MulticastMessage::Word::kJoin);
}

std::string question_message(uint32_t operation) {
  Writer writer = message(MessageType::kQuestion);
  writer.u32(operation);
  return writer.take();
}

std::string report_message(MessageType type, const CallReport& report) {
  Writer writer = message(type);
  writer.u8(static_cast<uint8_t>(report.state));
  writer.u32(report.operation);
  writer.u32(report.fingerprint);
  writer.u32(report.newest);
  writer.i32(report.stuck_on);
  writer.text(bounded(report.text, kMaxText));
  writer.text(bounded(report.algorithm, kMaxName));
  return writer.take();
}

bool read_report(Reader& reader, CallReport* report) {
  const uint8_t state = reader.u8();
  report->operation = reader.u32();
  report->fingerprint = reader.u32();
  report->newest = reader.u32();
  report->stuck_on = reader.i32();
  report->text = reader.text(kMaxText);
  report->algorithm = reader.text(kMaxName);
  report->state = static_cast<CallReport::State>(state);
  return reader.finished() && state <= static_cast<uint8_t>(CallReport::State::kForgotten);
}

std::string count_message(MessageType type, const PipeCount& count) {
  Writer writer = message(type);
  write_end(writer, count.name, count.end);
  writer.u32(count.messages);
  writer.u32(count.asked);
  writer.u8(count.rests ? 1 : 0);
  return writer.take();
}

bool read_count(Reader& reader, PipeCount* count) {
  read_end(reader, &count->name, &count->end);
  count->messages = reader.u32();
  count->asked = reader.u32();
  count->rests = reader.u8() != 0;
  return reader.finished() && is_pipe(count->name) && count->end <= PipeEnd::kReceiver;
}

std::string pace_message(const Pace& pace) {
  Writer writer = message(MessageType::kPace);
  writer.u64(pace.calls);
  writer.u64(static_cast<uint64_t>(pace.time.time_since_epoch().count()));
  writer.u64(static_cast<uint64_t>(pace.waited.count()));
  return writer.take();
}

bool read_pace(Reader& reader, Pace* pace) {
  pace->calls = reader.u64();
  const uint64_t time = reader.u64(), waited = reader.u64();
  constexpr uint64_t kMost = INT64_MAX / 2;
  pace->time = Time(Duration(static_cast<int64_t>(std::min(time, kMost))));
  pace->waited = Duration(static_cast<int64_t>(std::min(waited, kMost)));
  return reader.finished() && time <= kMost && waited <= kMost;
}

std::string check_in_message(const CheckIn& check_in) {
  Writer writer;
  writer.i32(check_in.rank);
  writer.i32(check_in.ranks);
  writer.u32(static_cast<uint32_t>(check_in.patience.count()));
  writer.i64(check_in.timeout.count());
  write_peer(writer, check_in.info);
  return writer.take();
}

bool read_check_in(std::string_view frame, CheckIn* check_in) {
  Reader reader(frame);
  check_in->rank = reader.i32();
  check_in->ranks = reader.i32();
  check_in->patience = std::chrono::milliseconds(reader.u32());
  check_in->timeout = std::chrono::microseconds(reader.i64());
  constexpr auto kMost = std::chrono::microseconds(INT64_MAX / 2000);  // as a Duration it is whole
  const bool can_be = check_in->timeout.count() > 0 && check_in->timeout <= kMost;
  return read_peer(reader, &check_in->info) && reader.finished() && check_in->info.rank == check_in->rank && can_be;
}

std::string admitted_message(const std::vector<PeerInfo>& neighbours) {
  Writer writer;
  writer.u8(kAdmitted);
  writer.u32(static_cast<uint32_t>(neighbours.size()));
  for (const PeerInfo& neighbour : neighbours) write_peer(writer, neighbour);
  return writer.take();
}

std::string refused_message(const Status& status) {
  Writer writer;
  writer.u8(kRefused);
  write_status(writer, status);
  return writer.take();
}

Result<std::vector<PeerInfo>> read_reply(std::string_view frame) {
  const Status malformed(Code::kRemote, "the reply of the root was malformed");
  Reader reader(frame);
  const uint8_t kind = reader.u8();
  if (kind == kRefused) {
    Status refusal;
    return read_status(reader, &refusal) && !refusal.ok() ? refusal : malformed;
  }
  const uint32_t count = reader.u32();
  if (kind != kAdmitted || count > kMaxNeighbours) return malformed;
  std::vector<PeerInfo> neighbours(count);
  for (PeerInfo& neighbour : neighbours) {
    if (!read_peer(reader, &neighbour)) return malformed;
  }
  if (!reader.finished()) return malformed;
  return neighbours;
}

}  // namespace hocket
