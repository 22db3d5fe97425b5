// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A transport may lose what was sent and say nothing, while the links of both ranks go another way and are well: a
// network that swallows long packets, a firewall that has forgotten a connection, an interface that only the transport
// uses. So ranks that wait for long compare how far both ends of the pipe have come. A connection of the mesh's own is
// replaced first, which helps where the network has only forgotten the old one.
#include <fmt/format.h>

#include "comm/mesh_rank.h"
#include "execute/execution.h"

namespace hocket {

// Within a host nothing is lost. What was sent is not due: its receiver may come as late as it likes.
void MeshRank::compare(PipeClass pipe_class, const PipeWait& wait, const std::string& call) {
  if ((!is_far(wait.peer) && !wait.all_sent) || has_left(wait.peer)) return;
  service_.reactor().post([self = shared_from_this(), name = PipeName{pipe_class, wait.peer, wait.lane}, wait, call] {
    if (self->failed() || self->said_farewell_) return;
    const PipeEnd ours = wait.sending ? PipeEnd::kSender : PipeEnd::kReceiver;
    if (!wait.all_sent) self->stalls_[{name, ours}].wait(wait.messages, wait.arrived, call);
    self->links_.send(name.peer, count_message(MessageType::kCount, {name, ours, wait.messages, wait.messages, false}));
  });
}

// Transfers that have ended, or stand still, hold back nothing that they have sent. A collective may, while it works.
void MeshRank::on_count(int32_t peer, Reader& reader) {
  PipeCount question;
  if (!read_count(reader, &question)) return on_misbehaviour(peer, "its count of messages was malformed");
  PipeCount answer = question;
  answer.end = other(question.end);
  const PipeName ours{question.name.pipe_class, peer, question.name.lane};
  answer.messages = pipes_.messages(ours, answer.end);
  answer.rests = ours.pipe_class == PipeClass::kPointToPoint || report(0).rests;
  links_.send(peer, count_message(MessageType::kCountAnswer, answer));
}

void MeshRank::on_count_answer(int32_t peer, Reader& reader) {
  PipeCount theirs;
  if (!read_count(reader, &theirs)) return on_misbehaviour(peer, "its count of messages was malformed");
  theirs.name.peer = peer;
  const StreamName pipe{theirs.name, other(theirs.end)};
  const bool we_send = pipe.second == PipeEnd::kSender;
  if (we_send) pipes_.note_released(theirs.name, theirs.messages);
  const auto found = stalls_.find(pipe);
  if (found == stalls_.end() || found->second.messages() != theirs.asked || failed() || has_left(peer)) return;
  StallWatch& stall = found->second;
  const Duration stalled = stall.hear(we_send, theirs.messages, theirs.rests, service_.system().clock.now());
  // HOCKET_TIMEOUT alone may be short.
  const Duration limit = service_.options().timeout + kOnItsWay;
  if (stalled >= limit) return fail_stalled(pipe, stall, limit);
  if (stalled < limit / 2 || !stall.may_renew()) return;
  for (const PipeEnd end : {PipeEnd::kSender, PipeEnd::kReceiver}) {
    if (const auto connection = stream(pipe.first, end)) connection->drop("what is sent over it does not come");
  }
}

void MeshRank::fail_stalled(const StreamName& pipe, const StallWatch& stall, Duration limit) {
  const auto& [name, end] = pipe;
  const std::string us = describe(rank_), them = describe(name.peer);
  const bool we_send = end == PipeEnd::kSender;
  const std::string lost =
      we_send ? fmt::format("{} has read all messages of {} but the last few, and that does not come back", them, us)
              : fmt::format("message {} of {} to {} does not come", stall.messages() + 1, them, us);
  fail(Status(Code::kRemote,
              fmt::format("{}: {} ({} lane {}, nothing for {:g} s, while both live): the network between them loses "
                          "what is sent",
                          stall.call(), lost, transport_name(name.peer), name.lane, seconds(limit))));
}

}  // namespace hocket
