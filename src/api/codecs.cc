// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codecs and compressed collectives of the C API.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>

#include "api/arguments.h"
#include "api/group.h"
#include "api/place.h"
#include "api/session.h"
#include "comm/call_range.h"
#include "comm/coding.h"
#include "hocket/hocket.h"

namespace hocket {
namespace {

HandleTable<Coding>& codings() {
  static auto& table = *new HandleTable<Coding>(2);
  return table;
}

Status invalid(std::string why) { return {Code::kInvalidArgument, std::move(why)}; }

Status no_codec() { return invalid("codec: no such codec (destroyed or never created)"); }

// The digest of a live codec, else 0. The last one is remembered: a call that repeats an earlier one needs no more of
// its codec, and to hold it costs more than all else that such a call does here.
uint32_t digest_of(hocketCodec_t codec, Session& session) {
  if (!codings().lives(codec)) return 0;
  if (session.last_codec == codec) return session.last_digest;
  const auto pin = codings().pin(codec);
  if (!pin) return 0;
  session.last_codec = codec;
  session.last_digest = pin->digest();
  return session.last_digest;
}

// Runs body(Coding&) -> Status with the codec of a handle.
template <typename Body>
hocketResult_t with_codec(hocketCodec_t codec, const Body& body) noexcept {
  return guarded([&] {
    const auto pin = codings().pin(codec);
    if (!pin) return report(no_codec());
    return report(body(*pin));
  });
}

Result<DataType> checked(hocketDataType_t datatype) {
  if (static_cast<unsigned>(datatype) < static_cast<unsigned>(kDataTypes)) return static_cast<DataType>(datatype);
  return invalid(fmt::format("datatype: there is no type {}", static_cast<int>(datatype)));
}

Status fill(const CodecDescription& from, const CodedTraffic& traffic, hocketCodecDescription_t* to) {
  if (to->size < sizeof *to) return invalid(fmt::format("description.size: {} is not {}", to->size, sizeof *to));
  if (from.specification.size() >= sizeof to->specification) return {Code::kInternal, "a specification is too long"};
  hocketCodecDescription_t result{};
  result.size = to->size;
  result.ratio = from.ratio;
  result.relativeError = from.relative_error;
  result.absoluteError = from.absolute_error;
  result.range = from.range;
  result.lossless = from.lossless;
  result.unbiased = from.unbiased;
  result.valueBytes = traffic.value_bytes();
  result.messageBytes = traffic.message_bytes();
  std::memcpy(result.specification, from.specification.c_str(), from.specification.size() + 1);
  *to = result;
  return {};
}

Result<Collective> checked(hocketFunc_t collective) {
  switch (collective) {
    case hocketFuncBroadcast:
      return Collective::kBroadcast;
    case hocketFuncReduce:
      return Collective::kReduce;
    case hocketFuncAllGather:
      return Collective::kAllGather;
    case hocketFuncReduceScatter:
      return Collective::kReduceScatter;
    case hocketFuncAllReduce:
      return Collective::kAllReduce;
    case hocketFuncAllToAll:
      return Collective::kAllToAll;
  }
  return invalid(fmt::format("collective: there is no compressed collective {}", static_cast<int>(collective)));
}

struct CodedCall {
  const char* key;
  hocketComm_t comm;
  hocketStream_t stream;
};

Status check_blocking(const CodedCall& call, const std::string& what) {
  if (call.stream == nullptr && !in_group()) return {};
  return {Code::kInvalidUsage, fmt::format("{} needs a call that blocks: stream NULL, outside groups", what)};
}

Status with_program(const CodedCall& call, Session& session, Coding& coding, Request& request) {
  HOCKET_TRY(check_blocking(call, "codec: " + coding.describe(DataType::kFloat32).specification));
  const Communicator& communicator = *session.communicator;
  return coding.run_program(call.key, request, communicator.rank(), communicator.ranks(),
                            [&](Request&& part) -> Status {
                              HOCKET_TRY(complete_request(communicator, part));
                              return submit(call.comm, session, std::move(part), call.stream);
                            });
}

Status with_key(const CodedCall& call, Session& session, Coding& coding, Request& request) {
  HOCKET_TRY(check_blocking(call, fmt::format("key: '{}'", call.key)));
  if (request.reduction.scalar_elsewhere != nullptr) {
    return {Code::kInvalidArgument, fmt::format("op: with a key, '{}', its scalar must be in host memory", call.key)};
  }
  Communicator& communicator = *session.communicator;
  const auto codec = communicator.planner().codec_for(request, coding.codecs());
  return coding.with_feedback(call.key, request, communicator.ranks(), codec, [&](Request& corrected) {
    return submit(call.comm, session, std::move(corrected), call.stream);
  });
}

Status check_and_submit(const CodedCall& call, Session& session, Coding& coding, Request& request) {
  HOCKET_TRY(complete_request(*session.communicator, request));
  if (call.key != nullptr || coding.is_program(call.key)) {
    HOCKET_TRY(check_host_memory("sendbuff", request.send));
    HOCKET_TRY(check_host_memory("recvbuff", request.recv));
  }
  if (coding.is_program(call.key)) return with_program(call, session, coding, request);
  if (call.key != nullptr) return with_key(call, session, coding, request);
  HOCKET_TRY(coding.attach(request, session.communicator->planner().codec_for(request, coding.codecs())));
  return submit(call.comm, session, std::move(request), call.stream);
}

// Takes the arguments where the caller has just written them: to copy them there and then would take longer than all
// else that a repeated call does here.
hocketResult_t run(const CodedCall& call, hocketCodec_t codec, CallArguments&& arguments, const void* send,
                   void* recv) noexcept {
  const CallRange range(arguments);
  return with_call(call.comm, [&](Session& session) -> Status {
    arguments.coding = digest_of(codec, session);
    if (arguments.coding == 0) return no_codec();
    if (call.key == nullptr && repeats(call.comm, session, arguments, send, recv, call.stream)) return {};
    const auto coding = codings().pin(codec);
    if (!coding) return no_codec();
    Request request(arguments, send, recv);
    return check_and_submit(call, session, *coding, request);
  });
}

Status save(const Coding& coding, void* buffer, size_t* bytes) {
  if (bytes == nullptr) return null_pointer("bytes");
  const std::string state = coding.save();
  if (buffer != nullptr && *bytes < state.size()) {
    return invalid(fmt::format("bytes: the state takes {}, the buffer has {}", state.size(), *bytes));
  }
  if (buffer != nullptr) std::memcpy(buffer, state.data(), state.size());
  *bytes = state.size();
  return {};
}

}  // namespace
}  // namespace hocket

using hocket::Coding;
using hocket::Status;

hocketResult_t hocketCodecCreate(hocketCodec_t* codec, const char* specification) {
  return hocket::guarded([&] {
    if (codec == nullptr) return hocket::report(hocket::null_pointer("codec"));
    if (specification == nullptr) return hocket::report(hocket::null_pointer("specification"));
    auto made = Coding::make(specification);
    if (!made.ok()) return hocket::report(made.status());
    void* handle = hocket::codings().add(std::move(*made));
    if (handle == nullptr) return hocket::report({hocket::Code::kInvalidUsage, "too many codecs at once"});
    *codec = static_cast<hocketCodec_t>(handle);
    return hocketSuccess;
  });
}

hocketResult_t hocketCodecDestroy(hocketCodec_t codec) {
  return hocket::guarded([&] {
    if (codec == nullptr || hocket::codings().remove(codec) != nullptr) return hocketSuccess;
    return hocket::report(hocket::no_codec());
  });
}

hocketResult_t hocketCodecDescribe(hocketCodec_t codec, hocketDataType_t datatype,
                                   hocketCodecDescription_t* description) {
  return hocket::with_codec(codec, [&](Coding& coding) -> Status {
    if (description == nullptr) return hocket::null_pointer("description");
    const auto type = hocket::checked(datatype);
    HOCKET_TRY(type.status());
    if (!coding.supports(*type))
      return hocket::invalid(fmt::format("datatype: the codec does not take {}", name(*type)));
    return hocket::fill(coding.describe(*type), coding.traffic(), description);
  });
}

hocketResult_t hocketAllReduceCompressed(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                         hocketRedOp_t op, hocketCodec_t codec, const char* key, hocketComm_t comm,
                                         hocketStream_t stream) {
  return hocket::run({key, comm, stream}, codec,
                     hocket::reducing(hocket::arguments(hocket::Collective::kAllReduce, count, datatype), op), sendbuff,
                     recvbuff);
}

hocketResult_t hocketReduceScatterCompressed(const void* sendbuff, void* recvbuff, size_t recvcount,
                                             hocketDataType_t datatype, hocketRedOp_t op, hocketCodec_t codec,
                                             hocketComm_t comm, hocketStream_t stream) {
  return hocket::run({nullptr, comm, stream}, codec,
                     hocket::reducing(hocket::arguments(hocket::Collective::kReduceScatter, recvcount, datatype), op),
                     sendbuff, recvbuff);
}

hocketResult_t hocketAllGatherCompressed(const void* sendbuff, void* recvbuff, size_t sendcount,
                                         hocketDataType_t datatype, hocketCodec_t codec, hocketComm_t comm,
                                         hocketStream_t stream) {
  return hocket::run({nullptr, comm, stream}, codec,
                     hocket::arguments(hocket::Collective::kAllGather, sendcount, datatype), sendbuff, recvbuff);
}

hocketResult_t hocketBroadcastCompressed(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                         int root, hocketCodec_t codec, hocketComm_t comm, hocketStream_t stream) {
  return hocket::run({nullptr, comm, stream}, codec,
                     hocket::rooted(hocket::arguments(hocket::Collective::kBroadcast, count, datatype), root), sendbuff,
                     recvbuff);
}

hocketResult_t hocketReduceCompressed(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                      hocketRedOp_t op, int root, hocketCodec_t codec, hocketComm_t comm,
                                      hocketStream_t stream) {
  return hocket::run(
      {nullptr, comm, stream}, codec,
      hocket::reducing(hocket::rooted(hocket::arguments(hocket::Collective::kReduce, count, datatype), root), op),
      sendbuff, recvbuff);
}

hocketResult_t hocketAllToAllCompressed(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                        hocketCodec_t codec, hocketComm_t comm, hocketStream_t stream) {
  return hocket::run({nullptr, comm, stream}, codec, hocket::arguments(hocket::Collective::kAllToAll, count, datatype),
                     sendbuff, recvbuff);
}

hocketResult_t hocketCodecErrorBound(hocketCodec_t codec, hocketFunc_t collective, hocketDataType_t datatype, int ranks,
                                     double* relative, double* absolute) {
  return hocket::with_codec(codec, [&](Coding& coding) -> Status {
    if (relative == nullptr) return hocket::null_pointer("relative");
    if (absolute == nullptr) return hocket::null_pointer("absolute");
    const auto type = hocket::checked(datatype);
    HOCKET_TRY(type.status());
    const auto which = hocket::checked(collective);
    HOCKET_TRY(which.status());
    const auto bound = coding.error_bound(*which, *type, ranks);
    HOCKET_TRY(bound.status());
    *relative = bound->relative;
    *absolute = bound->absolute;
    return {};
  });
}

hocketResult_t hocketCodecSaveState(hocketCodec_t codec, void* buffer, size_t* bytes) {
  return hocket::with_codec(codec, [&](Coding& coding) { return hocket::save(coding, buffer, bytes); });
}

hocketResult_t hocketCodecLoadState(hocketCodec_t codec, const void* buffer, size_t bytes) {
  return hocket::with_codec(codec, [&](Coding& coding) {
    if (buffer == nullptr) return hocket::null_pointer("buffer");
    return coding.load({static_cast<const char*>(buffer), bytes});
  });
}

hocketResult_t hocketCodecResetState(hocketCodec_t codec, const char* key) {
  return hocket::with_codec(codec, [&](Coding& coding) {
    key == nullptr ? coding.reset() : coding.reset(key);
    return Status();
  });
}
