// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The bytes of what ranks tell each other over links. Writing and reading in one place; reading never trusts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "comm/agreement.h"
#include "comm/lasting_stream.h"
#include "comm/mesh.h"
#include "cuda/shared_memory.h"

namespace hocket {

inline constexpr int32_t kMaxRanks = 1 << 20;

// The first byte of every frame between two ranks.
enum class MessageType : uint8_t {
  kGreeting = 1,  // + the sender's wake handle
  kTable,         // part of the all-gather of PeerInfo
  kOpinion,       // of a failure
  kDismissal,     // the receiver was silent for too long and is counted as lost
  kFarewell,
  kOffer,  // of a pipe, + its handles
  kQuestion,
  kAnswer,
  kWindow,  // the sender's part of a window, + the handle of its memory
  kClaim,   // the sender's newest collective
  kAccess,  // to the receiver's part of a window (remote_wire.h)
  kAccessReply,
  kPace,    // how the sender gets on
  kStream,  // how far the sender has received the stream of a pipe
  kCount,   // how far the sender's end of a pipe has come, and what about the receiver's?
  kCountAnswer,
  kMemory,  // device memory of the sender that is no window, + the handle of its descriptor, if it has one
  kMemoryAnswer,
  kWithdrawal,  // of such memory
  kMulticast,   // how a window comes behind one address, + the handle of the object that is to be joined
};

void write_peer(Writer& writer, const PeerInfo& peer);
bool read_peer(Reader& reader, PeerInfo* peer);
// No PeerInfo takes more bytes than this.
inline constexpr size_t kMaxPeerBytes = 7200;

struct PipeName {
  PipeClass pipe_class = PipeClass::kCollective;
  int32_t peer = 0;
  int32_t lane = 0;
  friend auto operator<=>(const PipeName&, const PipeName&) = default;
};

bool is_pipe(const PipeName& name);

std::string opinion_message(const Opinion& opinion);
// Every rank that is named is one of `ranks`.
bool read_opinion(Reader& reader, int32_t ranks, Opinion* opinion);
std::string offer_message(const PipeName& name, uint8_t transport);
bool read_offer(Reader& reader, PipeName* name, uint8_t* transport);
// Which end of a connection: the sender dials it, also where it carries a pipe of the other direction as well.
enum class PipeEnd : uint8_t { kSender, kReceiver };
inline PipeEnd other(PipeEnd end) { return end == PipeEnd::kSender ? PipeEnd::kReceiver : PipeEnd::kSender; }
std::string stream_message(const PipeName& name, PipeEnd ours, const LastingStream::Report& report);
bool read_stream(Reader& reader, PipeName* name, PipeEnd* theirs, LastingStream::Report* report);
// A rank's part of a window.
struct WindowOffer {
  uint32_t number = 0;
  uint64_t bytes = 0;
  uint64_t segment_bytes = 0;                    // of the memory that the handle stands for; 0: it cannot be reached
  uint64_t offset = 0;                           // in that memory
  std::optional<cuda::MemoryOffer> device = {};  // that memory is a device's
  size_t handles() const;                        // that go with it
};
std::string window_message(const WindowOffer& offer);
bool read_window(Reader& reader, WindowOffer* offer);
// Device memory that is no window.
struct MemoryMessage {
  uint32_t number = 0;
  cuda::MemoryOffer offer = {};
  size_t handles() const { return offer.way == cuda::MemoryOffer::Way::kDescriptor ? 1 : 0; }
};
std::string memory_message(const MemoryMessage& message);
bool read_memory_message(Reader& reader, MemoryMessage* message);
std::string memory_answer(uint32_t number, bool is_mapped);
bool read_memory_answer(Reader& reader, uint32_t* number, bool* is_mapped);
std::string withdrawal_message(uint32_t number);
// What rank 0 asks of all for a window, and what they answer.
struct MulticastMessage {
  enum class Word : uint8_t { kJoin, kBind, kUse, kOff, kDone, kRefused };
  uint32_t window = 0;
  Word word = Word::kJoin;
  uint64_t bytes = 0;  // kJoin: of the object
  bool is_leads() const { return word <= Word::kOff; }
  size_t handles() const { return word == Word::kJoin ? 1 : 0; }
};
std::string multicast_message(const MulticastMessage& message);
bool read_multicast(Reader& reader, MulticastMessage* message);
std::string question_message(uint32_t operation);
// An answer or a claim.
std::string report_message(MessageType type, const CallReport& report);
bool read_report(Reader& reader, CallReport* report);
// How far one end of a pipe has come.
struct PipeCount {
  PipeName name;  // as whoever says it knows it
  PipeEnd end = PipeEnd::kSender;
  uint32_t messages = 0;
  uint32_t asked = 0;  // messages in the question; both are the same there
  bool rests = false;  // nothing that was sent waits for the rank that says it
};
std::string count_message(MessageType type, const PipeCount& count);
bool read_count(Reader& reader, PipeCount* count);
std::string pace_message(const Pace& pace);
bool read_pace(Reader& reader, Pace* pace);
std::string plain_message(MessageType type);

// A check-in with the root, and its reply.
struct CheckIn {
  int32_t rank = 0;
  int32_t ranks = 0;
  std::chrono::milliseconds patience{};  // until all have come
  std::chrono::microseconds timeout{};   // HOCKET_TIMEOUT
  PeerInfo info;
};
std::string check_in_message(const CheckIn& check_in);
bool read_check_in(std::string_view frame, CheckIn* check_in);
std::string admitted_message(const std::vector<PeerInfo>& neighbours);
std::string refused_message(const Status& status);
// The neighbours, or the refusal.
Result<std::vector<PeerInfo>> read_reply(std::string_view frame);

}  // namespace hocket
