// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a window comes behind one address (multicast.h): what the ranks tell each other, and what each does of it on the
// driver's thread. Rank 0 asks all to join, then to bind, then lets all use it; or, when one cannot, turns it off.
#include <fmt/format.h>

#include <utility>

#include "base/caught.h"
#include "base/log.h"
#include "comm/device_windows.h"
#include "comm/driver_thread.h"
#include "comm/mesh_rank.h"
#include "comm/multicast.h"
#include "cuda/stream.h"

namespace hocket {
namespace {

using Word = MulticastMessage::Word;

// What a rank does of it, with its own part.
using Work = std::function<Status(const cuda::Driver&, DevicePart&)>;

// Of our part, in the context in which it was registered.
Status work_on(DevicePart& part, const Work& work) {
  const cuda::Driver* const driver = cuda::driver();
  if (driver == nullptr) return Status(Code::kInvalidUsage, "this rank uses no device");
  const cuda::Entered entered(*driver, part.context);
  return tried([&] { return work(*driver, part); });
}

Status join_object(const cuda::Driver& driver, DevicePart& part, const Descriptor& descriptor, size_t bytes) {
  const Result<cuda::MadeMemory> memory = memory_of(part);
  HOCKET_TRY(memory.status());
  Result<std::shared_ptr<cuda::Multicast>> object = cuda::Multicast::import(driver, memory->device, descriptor, bytes);
  HOCKET_TRY(object.status());
  part.multicast->put(std::move(*object));
  return {};
}

Status bind_memory(const cuda::Driver& /*driver*/, DevicePart& part) {
  Result<cuda::MadeMemory> memory = memory_of(part);
  HOCKET_TRY(memory.status());
  const std::shared_ptr<cuda::Multicast> object = part.multicast->object();
  return object == nullptr ? Status(Code::kInvalidUsage, "it was turned off") : object->bind(std::move(*memory));
}

}  // namespace

std::shared_ptr<MulticastWindow> MeshRank::multicast(uint32_t window, bool may_begin) {
  const std::shared_ptr<DevicePart> ours = windows_.device_part(window, rank_);
  if (ours == nullptr || ours->multicast == nullptr) return nullptr;
  const bool begins = may_begin && rank_ == MulticastWindow::kLead && ours->multicast->begin() == nullptr &&
                      ours->multicast->set_up(static_cast<size_t>(ranks_));
  if (begins) begin_multicast(window, windows_.device_parts(window));
  return ours->multicast;
}

// The lead's: makes the object, and asks the others to join.
void MeshRank::begin_multicast(uint32_t window, const DeviceParts& parts) {
  const size_t bytes = multicast_bytes(*cuda::driver(), parts);
  if (bytes == 0) {
    log_info("rank {}: window {} has no memory that multicast is for", rank_, window);
    return parts[static_cast<size_t>(rank_)]->multicast->turn_off(), void();
  }
  do_for_multicast(window, [self = shared_from_this(), window, bytes](const cuda::Driver& driver, DevicePart& part) {
    const Result<cuda::MadeMemory> memory = memory_of(part);
    HOCKET_TRY(memory.status());
    Result<std::shared_ptr<cuda::Multicast>> object =
        cuda::Multicast::make(driver, memory->device, static_cast<unsigned>(self->ranks_), bytes);
    HOCKET_TRY(object.status());
    Result<std::shared_ptr<const Segment>> descriptor = (*object)->share();
    HOCKET_TRY(descriptor.status());
    part.multicast->put(std::move(*object));
    self->service_.reactor().post([self, window, bytes, descriptor = std::move(*descriptor)] {
      self->tell_of_multicast({window, Word::kJoin, bytes}, descriptor);
    });
    return Status();
  });
}

// On the driver's thread; the lead hears how it went.
void MeshRank::do_for_multicast(uint32_t window, Work work) {
  const std::shared_ptr<DevicePart> ours = windows_.device_part(window, rank_);
  if (ours == nullptr || ours->multicast == nullptr) return answer_multicast(window, false);
  const auto run = [self = shared_from_this(), window, ours, work = std::move(work)]() mutable {
    const Status status = work_on(*ours, work);
    if (!status.ok()) {
      log_warn("rank {}: window {} goes without multicast: {}", self->rank_, window, status.message());
    }
    work = nullptr;
    self->service_.reactor().post(
        [self = std::exchange(self, nullptr), window, done = status.ok()] { self->answer_multicast(window, done); });
  };
  if (!post_to_driver_thread(service_.system(), run)) answer_multicast(window, false);
}

void MeshRank::answer_multicast(uint32_t window, bool has_done) {
  if (said_farewell_) return;
  if (rank_ == MulticastWindow::kLead) return hear_of_multicast(rank_, window, has_done);
  links_.send(MulticastWindow::kLead, multicast_message({window, has_done ? Word::kDone : Word::kRefused, 0}));
}

void MeshRank::tell_of_multicast(const MulticastMessage& message, const std::shared_ptr<const Segment>& descriptor) {
  if (said_farewell_) return;
  std::vector<Handle> handles;
  if (descriptor != nullptr) handles.push_back(descriptor->handle());
  for (int32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) links_.send(peer, multicast_message(message), handles);
  }
  keep_until_sent(descriptor);
}

// The lead's.
void MeshRank::hear_of_multicast(int32_t rank, uint32_t window, bool has_done) {
  const std::shared_ptr<DevicePart> ours = windows_.device_part(window, rank_);
  if (ours == nullptr || ours->multicast == nullptr) return;  // closed meanwhile
  switch (ours->multicast->hear(rank, has_done)) {
    case MulticastWindow::Heard::kNotAll:
    case MulticastWindow::Heard::kNothing:
      return;
    case MulticastWindow::Heard::kJoined:
      tell_of_multicast({window, Word::kBind, 0}, nullptr);
      return do_for_multicast(window, bind_memory);
    case MulticastWindow::Heard::kBound:
      tell_of_multicast({window, Word::kUse, 0}, nullptr);
      return ours->multicast->use();
    case MulticastWindow::Heard::kRefused:
      tell_of_multicast({window, Word::kOff, 0}, nullptr);
      log_info("rank {}: window {} goes without multicast, for {} cannot", rank_, window, describe(rank));
      return turn_off_multicast(ours);
    case MulticastWindow::Heard::kTwice:
      return on_misbehaviour(rank, "it has answered twice for a multicast object");
  }
}

void MeshRank::turn_off_multicast(const std::shared_ptr<DevicePart>& ours) {
  const auto let_go = [object = ours->multicast->turn_off()]() mutable { object.reset(); };
  (void)post_to_driver_thread(service_.system(), let_go);
}

void MeshRank::on_multicast(int32_t peer, Reader& reader, std::vector<Handle>& handles) {
  MulticastMessage message;
  const bool makes_sense = read_multicast(reader, &message) && handles.size() == message.handles() &&
                           (message.is_leads() ? peer : rank_) == MulticastWindow::kLead;
  if (!makes_sense) return on_misbehaviour(peer, "what it said of a multicast object cannot be");
  if (!message.is_leads()) return hear_of_multicast(peer, message.window, message.word == Word::kDone);
  if (message.word == Word::kBind) return do_for_multicast(message.window, bind_memory);
  if (message.word == Word::kJoin) {
    const auto descriptor = std::make_shared<Descriptor>(std::exchange(handles, {}).front());
    return do_for_multicast(message.window,
                            [descriptor, bytes = message.bytes](const cuda::Driver& driver, DevicePart& part) {
                              return join_object(driver, part, *descriptor, bytes);
                            });
  }
  const std::shared_ptr<DevicePart> ours = windows_.device_part(message.window, rank_);
  if (ours == nullptr || ours->multicast == nullptr) return;  // closed meanwhile, or never wished
  if (message.word == Word::kUse) return ours->multicast->use();
  turn_off_multicast(ours);
}

}  // namespace hocket
