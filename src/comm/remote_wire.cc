// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/remote_wire.h"

#include "comm/mesh_windows.h"
#include "comm/mesh_wire.h"
#include "comm/signals.h"

namespace hocket {
namespace {

using Kind = RemoteRequest::Kind;

constexpr size_t kMaxCard = 1024;

bool makes_sense(const RemoteRequest& request) {
  const bool has_signal = request.signal >= 0;
  if (request.window == WindowTable::kSignals) return false;  // which is no memory of a program
  if (request.kind > Kind::kDoor || request.signal < -1 || request.signal >= SignalBoard::kSignals) return false;
  if (has_signal != (request.kind == Kind::kSignal) && request.kind != Kind::kPut) return false;
  if (request.kind == Kind::kDoor) return request.data.size() <= kMaxCard;
  if (request.kind == Kind::kFetch || request.kind == Kind::kCompareSwap) {
    return is_atomic(request.type) && is_atomic(request.op) && request.bytes == element_bytes(request.type);
  }
  return request.bytes <= kMaxRemoteBytes && request.data.size() == (request.kind == Kind::kPut ? request.bytes : 0);
}

}  // namespace

std::string access_message(uint64_t id, const RemoteRequest& request) {
  Writer writer;
  writer.u8(static_cast<uint8_t>(MessageType::kAccess));
  writer.u64(id);
  writer.u8(static_cast<uint8_t>(request.kind));
  writer.u32(request.window);
  writer.u64(request.offset);
  writer.u64(request.bytes);
  writer.u64(request.extent);
  writer.u8(static_cast<uint8_t>(request.type));
  writer.u8(static_cast<uint8_t>(request.op));
  writer.u64(request.operand);
  writer.u64(request.compare);
  writer.i32(request.signal);
  writer.text(request.data);
  return writer.take();
}

bool read_access(Reader& reader, uint64_t* id, RemoteRequest* request) {
  *id = reader.u64();
  request->kind = static_cast<Kind>(reader.u8());
  request->window = reader.u32();
  request->offset = reader.u64();
  request->bytes = reader.u64();
  request->extent = reader.u64();
  request->type = static_cast<DataType>(reader.u8());
  request->op = static_cast<ReduceOp>(reader.u8());
  request->operand = reader.u64();
  request->compare = reader.u64();
  request->signal = reader.i32();
  request->data = reader.text(kMaxRemoteBytes);
  return reader.finished() && makes_sense(*request);
}

std::string access_reply_message(uint64_t id, const RemoteReply& reply) {
  Writer writer;
  writer.u8(static_cast<uint8_t>(MessageType::kAccessReply));
  writer.u64(id);
  writer.u8(static_cast<uint8_t>(reply.outcome));
  writer.u64(reply.limit);
  writer.text(reply.data);
  return writer.take();
}

bool read_access_reply(Reader& reader, uint64_t* id, RemoteReply* reply) {
  *id = reader.u64();
  reply->outcome = static_cast<RemoteReply::Outcome>(reader.u8());
  reply->limit = reader.u64();
  reply->data = reader.text(kMaxRemoteBytes);
  return reader.finished() && reply->outcome <= RemoteReply::Outcome::kMisaligned;
}

}  // namespace hocket
