// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One end of a reliable connection, with all that belongs to it: a protection domain of its own, so that a peer's keys
// open nothing but what this end registered for it, unless it is given one; its completion queue; and the channel on
// which a sleeper waits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "base/system.h"
#include "transports/verbs/card.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/registrations.h"

namespace hocket {

class QueuePair {
 public:
  // Who may do what.
  enum class Role : uint8_t {
    kSender,    // writes from its memory; the peer reads from what keys_for() tells
    kReceiver,  // the peer writes to its memory
    kAccessor,  // writes from and reads to its memory, and what keys_for() tells; the peer does neither
    kTarget,    // the peer writes and reads what is registered in the domain
  };
  struct Options {
    Role role = Role::kSender;
    uint32_t sends = 0;        // under way at a time, at most
    uint32_t receives = 0;     // posted at all times, at least
    ibv_pd* domain = nullptr;  // which outlives it; null: one of its own
  };

  // `memory` is registered, if there is any.
  static Result<std::unique_ptr<QueuePair>> open(const VerbsTable& table, const VerbsPort& port,
                                                 std::span<std::byte> memory, const Options& options);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Without a GID or a ring.
  VerbsCard card() const;
  // The key by which a peer writes to the memory.
  uint32_t key() const { return region_->rkey; }
  // Goes ready to receive and to send. `gid`: of ours, by which the peer sees us.
  Status connect(const VerbsCard& peer, const VerbsGid& gid);

  // Writes part of the memory to `address` in the peer's, and tells it the amount.
  Status write(std::span<const std::byte> part, uint64_t address, uint32_t key, RingAmount amount);
  // Reads from `address` in the peer's memory to `into`, which can_use().
  Status read(std::span<std::byte> into, uint64_t address, uint32_t key);
  // Writes there what can_put(), and tells the peer nothing.
  Status put(std::span<const std::byte> from, uint64_t address, uint32_t key);
  // It lies in the memory, or lasts and is registered.
  bool can_use(std::span<const std::byte> bytes) { return local_key(bytes).has_value(); }
  bool can_put(std::span<const std::byte> bytes) { return bytes.size() <= max_inline_ || can_use(bytes); }
  // Of memory that lasts: by which the peer reads there, or by which read() writes there.
  std::optional<Registrations::Keys> keys_for(std::span<const std::byte> bytes) { return lasting_->keys_for(bytes); }
  // How many reads are done.
  uint64_t reads() const { return reads_; }
  // Tells the peer the amount.
  Status notify(RingAmount amount);
  bool has_room() const { return sent_ - completed_ < options_.sends; }
  // It broke, as the peer's memory is not open to what was sent.
  bool was_refused() const { return refused_; }
  // The peer has had something.
  bool has_sent() const { return completed_ > 0; }
  // So many sends were begun, and so many are done.
  uint64_t sent() const { return sent_; }
  uint64_t completed() const { return completed_; }
  // All sends are done: the peer has them.
  bool idle() const { return sent_ == completed_; }

  // Whether something has happened: cheap, as most looks are in vain.
  bool has_news() { return news_ != 0 || (news_ = table_.poll_cq(completions_, kBatch, batch_.data())) != 0; }
  // Takes in what has happened, and adds to `told` what the peer told.
  Status poll(RingAmount* told);
  // No send of the peer's is acknowledged any more, and the next poll() has what was.
  void stop();

  // The handle has news at the next completion. Look once more after arming.
  Status arm();
  Handle handle() const { return channel_->fd; }

 private:
  // Of completions that are taken at a time, and of receives that are posted at a time.
  static constexpr uint32_t kBatch = 16;

  QueuePair(const VerbsTable& table, const VerbsPort& port, const Options& options);
  Status create(std::span<std::byte> memory);
  Status register_memory(std::span<std::byte> memory);
  Status create_queues();
  Status initialise();
  std::optional<uint32_t> local_key(std::span<const std::byte> bytes);
  // Of one piece, from or to the peer's memory.
  Status post(ibv_wr_opcode opcode, std::span<const std::byte> piece, uint32_t local_key, uint64_t address,
              uint32_t key, uint32_t immediate = 0);
  Status make_ready_to_receive(const VerbsCard& peer, const VerbsGid& gid);
  Status make_ready_to_send();
  Status post(ibv_send_wr* request);
  uint32_t receives() const { return options_.receives > 0 ? options_.receives + kBatch : 0; }
  Status post_receives(uint32_t count);
  Status on_completion(const ibv_wc& completion, RingAmount* told);
  void drain_events();
  // "mlx5_0 port 1: cannot make a queue pair: cannot allocate memory"
  Status failure(std::string_view what, int error) const;

  const VerbsTable& table_;
  const VerbsPort& port_;
  const Options options_;
  ibv_pd* domain_ = nullptr;
  std::span<std::byte> memory_;
  ibv_mr* region_ = nullptr;
  std::unique_ptr<Registrations> lasting_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_qp* pair_ = nullptr;
  uint32_t max_inline_ = 0;
  uint32_t first_packet_ = 0;
  uint64_t sent_ = 0;
  uint64_t completed_ = 0;
  uint64_t reads_ = 0;
  uint32_t used_ = 0;  // receives that are not posted again yet
  int news_ = 0;       // completions in the batch; below 0: what went wrong
  std::array<ibv_wc, kBatch> batch_;
  bool armed_ = false;
  bool refused_ = false;
};

}  // namespace hocket
