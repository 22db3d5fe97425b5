// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A place of UCX from which messages go and to which they come: one for all pipes of a communicator, which may be moved
// by several threads. Knows inboxes, no pipe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/system.h"
#include "transports/ucx/context.h"
#include "transports/ucx/inbox.h"

namespace hocket {

class UcxWorker;

// The way to another worker. Destroying it closes it.
class UcxLink {
 public:
  ~UcxLink();
  UcxLink(const UcxLink&) = delete;
  UcxLink& operator=(const UcxLink&) = delete;

  // Fails once it is broken.
  Status status() const;

 private:
  friend class UcxWorker;
  explicit UcxLink(std::shared_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  const std::shared_ptr<UcxWorker> worker_;
  ucp_ep_h endpoint_ = nullptr;
  bool notices_failures_ = true;
  std::atomic<ucs_status_t> state_ = UCS_OK;
};

// Something that UCX has to do; the worker knows whether it is done.
class UcxOperation {
 public:
  bool has_ended() const { return request_ == nullptr; }  // as far as the worker has looked

 private:
  friend class UcxWorker;
  void* request_ = nullptr;
};

class UcxWorker : public std::enable_shared_from_this<UcxWorker> {
 public:
  static Result<std::shared_ptr<UcxWorker>> make(std::shared_ptr<const UcxContext> context, System& system,
                                                 Poller& poller);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // By which others find it; in UCX's own form.
  const std::string& address() const { return address_; }
  // There is one to each address.
  Result<std::shared_ptr<UcxLink>> link_to(const std::string& address);

  void progress();
  // Changes whenever something has come or gone, of whatever pipe.
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }
  // The poller wakes when there is news.
  Status arm();

  // From now on, until close, messages with this token go to the inbox.
  void open(uint64_t token, UcxInbox* inbox);
  void close(uint64_t token);

  // `header` and `data` must stay until the operation is done.
  Result<UcxOperation> send(UcxLink& link, const UcxHeader& header, std::span<const std::byte> data);
  // What arrived as an offer.
  Result<UcxOperation> fetch(void* offer, std::span<std::byte> into);
  // A message that belongs to no pipe: done when all that was sent before is with the system, or with the device.
  Result<UcxOperation> send_marker(UcxLink& link);
  Result<bool> is_done(UcxOperation* operation);
  // What lies in UCX's own memory is not needed any more.
  void drop(void* data);
  // Keeps the memory as long as the operations need it.
  void keep(std::shared_ptr<void> memory, std::vector<UcxOperation> operations);

 private:
  friend class UcxLink;
  struct Kept {
    std::shared_ptr<void> memory;
    std::vector<UcxOperation> operations;
  };

  UcxWorker(std::shared_ptr<const UcxContext> context, System& system, Poller& poller)
      : context_(std::move(context)), table_(context_->table()), system_(system), poller_(poller) {}
  Status create();
  Result<UcxOperation> begun(std::string_view what, ucs_status_ptr_t request) const;
  Result<bool> look(UcxOperation* operation) const;
  unsigned move();
  ucs_status_t connect(UcxLink* link, const std::string& address);
  void end(const UcxLink& link);
  static ucs_status_t on_message(void* self, const void* header, size_t header_bytes, void* data, size_t length,
                                 const ucp_am_recv_param_t* param);

  const std::shared_ptr<const UcxContext> context_;
  const UcxTable& table_;
  System& system_;
  Poller& poller_;
  ucp_worker_h handle_ = nullptr;
  Handle descriptor_ = kNoHandle;
  std::string address_;
  std::atomic<uint64_t> moves_ = 0;
  std::mutex mutex_;  // guards all of UCX's, and what follows
  std::unordered_map<uint64_t, UcxInbox*> inboxes_;
  std::map<std::string, std::weak_ptr<UcxLink>> links_;
  std::vector<Kept> kept_;
};

}  // namespace hocket
