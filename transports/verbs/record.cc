// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/record.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace hocket {
namespace {

constexpr uint16_t kMagic = 'H' | 'R' << 8;
constexpr uint8_t kVersion = 2;
constexpr size_t kTurnBytes = 8;     // without the card
constexpr size_t kAnswerBytes = 32;  // the same
constexpr size_t kLentHeader = 12;

Status malformed(std::string_view what) { return Status(Code::kInternal, fmt::format("a malformed {}", what)); }

void write_stand(Writer* writer, const Stand& stand) {
  writer->u64(stand.arrived);
  writer->u64(stand.returned.bytes);
  writer->u64(stand.returned.frames);
}

Stand read_stand(Reader* reader) {
  Stand stand;
  stand.arrived = reader->u64();
  stand.returned.bytes = reader->u64();
  stand.returned.frames = reader->u64();
  return stand;
}

Status check(const Stand& stand) {
  const bool whole_lines = stand.arrived % kFrameGrain == 0 && stand.returned.bytes % kFrameGrain == 0;
  if (whole_lines && stand.returned.bytes <= stand.arrived &&
      stand.returned.frames <= stand.returned.bytes / kFrameGrain) {
    return {};
  }
  return Status(Code::kInternal, fmt::format("a stand of {} bytes arrived and {} frames of {} bytes given back",
                                             stand.arrived, stand.returned.frames, stand.returned.bytes));
}

// What is left of a record is a card, or there is none.
Status read_card(std::string_view left, CardOf end, std::optional<VerbsCard>* card) {
  card->reset();
  return left.empty() ? Status() : decode_card(left, end, &card->emplace());
}

}  // namespace

std::string encode_turn(const Turn& turn) {
  Writer writer;
  writer.u32(turn.path);
  writer.u32(turn.ring);
  if (turn.card) writer.raw(encode_card(CardOf::kSender, *turn.card));
  return writer.take();
}

Status decode_turn(std::string_view bytes, Turn* turn) {
  Reader reader(bytes);
  turn->path = reader.u32();
  turn->ring = reader.u32();
  if (!reader.ok()) return malformed("turn");
  HOCKET_TRY(check_ring_bytes(turn->ring));
  return read_card(bytes.substr(kTurnBytes), CardOf::kSender, &turn->card);
}

std::string encode_answer(const Answer& answer) {
  Writer writer;
  writer.u32(answer.path);
  writer.u32(answer.ring);
  write_stand(&writer, answer.stand);
  if (answer.card) writer.raw(encode_card(CardOf::kReceiver, *answer.card));
  return writer.take();
}

Status decode_answer(std::string_view bytes, Answer* answer) {
  Reader reader(bytes);
  answer->path = reader.u32();
  answer->ring = reader.u32();
  answer->stand = read_stand(&reader);
  if (!reader.ok()) return malformed("answer");
  HOCKET_TRY(check_ring_bytes(answer->ring));
  HOCKET_TRY(check(answer->stand));
  return read_card(bytes.substr(kAnswerBytes), CardOf::kReceiver, &answer->card);
}

std::string encode_stand(const Stand& stand) {
  Writer writer;
  write_stand(&writer, stand);
  return writer.take();
}

Status decode_stand(std::string_view bytes, Stand* stand) {
  Reader reader(bytes);
  *stand = read_stand(&reader);
  return reader.finished() ? check(*stand) : malformed("stand");
}

std::string encode_path(uint32_t path) {
  Writer writer;
  writer.u32(path);
  return writer.take();
}

Status decode_path(std::string_view bytes, uint32_t* path) {
  Reader reader(bytes);
  *path = reader.u32();
  return reader.finished() ? Status() : malformed("word of a path");
}

Status withdrawn(std::string_view peer) {
  return Status(Code::kRemote, fmt::format("{} has taken back the memory of a message that was under way", peer));
}

std::string encode_fetch(uint64_t position) {
  Writer writer;
  writer.u64(position);
  return writer.take();
}

Status decode_fetch(std::string_view bytes, uint64_t* position) {
  Reader reader(bytes);
  *position = reader.u64();
  return reader.finished() ? Status() : malformed("fetch");
}

std::string encode_lent_bytes(const LentBytes& part) {
  Writer writer;
  writer.u64(part.position);
  writer.u32(part.offset);
  writer.raw(part.bytes);
  return writer.take();
}

Status decode_lent_bytes(std::string_view bytes, LentBytes* part) {
  Reader reader(bytes);
  part->position = reader.u64();
  part->offset = reader.u32();
  if (!reader.ok()) return malformed("part of a lent message");
  part->bytes = bytes.substr(kLentHeader);
  if (!part->bytes.empty() && part->bytes.size() <= LentBytes::kLongest) return {};
  return Status(Code::kInternal, fmt::format("{} bytes of a lent message; 1 to {} come at a time", part->bytes.size(),
                                             LentBytes::kLongest));
}

void Records::send(RecordKind kind, std::string_view body) {
  Writer writer;
  writer.u16(kMagic);
  writer.u8(kVersion);
  writer.u8(static_cast<uint8_t>(kind));
  writer.u32(static_cast<uint32_t>(body.size()));
  writer.raw(body);
  exchange_.send(writer.take());
}

Result<std::optional<Record>> Records::next() {
  if (!begun_) {
    const auto header = exchange_.receive(kHeader);
    if (!header.ok()) return header.status();
    if (!*header) return std::optional<Record>();
    Reader reader(**header);
    const bool is_ours = reader.u16() == kMagic && reader.u8() == kVersion;
    const uint8_t kind = reader.u8();
    left_ = reader.u32();
    if (!is_ours) return refuse(Status(Code::kInternal, "no record of ours"));
    if (kind < 1 || kind > static_cast<uint8_t>(RecordKind::kWithdrawn) || left_ == 0 || left_ > kLongest) {
      return refuse(Status(Code::kInternal, fmt::format("a record of kind {} with {} bytes", kind, left_)));
    }
    begun_ = Record{static_cast<RecordKind>(kind), {}};
  }
  auto body = exchange_.receive(left_);
  if (!body.ok()) return body.status();
  if (!*body) return std::optional<Record>();
  begun_->body = std::move(**body);
  return std::exchange(begun_, std::nullopt);
}

Status Records::refuse(const Status& why) const {
  return Status(why.code(), fmt::format("{} sent {}", peer_name(), why.message()));
}

}  // namespace hocket
