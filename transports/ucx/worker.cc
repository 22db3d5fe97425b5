// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/worker.h"

#include <cstring>

namespace hocket {
namespace {

constexpr unsigned kMessages = 0;  // the number of our only kind of active message
constexpr size_t kAlign = 64;
// What has not ended by then ends with the worker.
constexpr auto kCloseLimit = std::chrono::seconds(1);

}  // namespace

UcxLink::~UcxLink() {
  if (endpoint_ != nullptr) worker_->end(*this);
}

Status UcxLink::status() const {
  const ucs_status_t state = state_;
  return state == UCS_OK ? Status() : ucx_failure(worker_->table_, "the connection broke", state);
}

void UcxLink::on_error(void* self, ucp_ep_h, ucs_status_t status) { static_cast<UcxLink*>(self)->state_ = status; }

Result<std::shared_ptr<UcxWorker>> UcxWorker::make(std::shared_ptr<const UcxContext> context, System& system,
                                                   Poller& poller) {
  std::shared_ptr<UcxWorker> made(new UcxWorker(std::move(context), system, poller));
  HOCKET_TRY(made->create());
  return made;
}

Status UcxWorker::create() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.am_alignment = kAlign;
  ucs_status_t status = table_.worker_create(context_->handle(), &params, &handle_);
  if (status != UCS_OK) return ucx_failure(table_, "cannot make a worker", status);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessages;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = on_message;
  handler.arg = this;
  status = table_.worker_set_am_recv_handler(handle_, &handler);
  if (status != UCS_OK) return ucx_failure(table_, "cannot receive active messages", status);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = table_.worker_get_address(handle_, &address, &bytes);
  if (status != UCS_OK) return ucx_failure(table_, "cannot tell where it is reached", status);
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  table_.worker_release_address(handle_, address);
  status = table_.worker_get_efd(handle_, &descriptor_);
  if (status != UCS_OK) return ucx_failure(table_, "cannot be waited for", status);
  return poller_.add(descriptor_);
}

UcxWorker::~UcxWorker() {
  if (handle_ == nullptr) return;
  const Time limit = system_.clock.now() + kCloseLimit;
  for (move(); !kept_.empty() && system_.clock.now() < limit; move()) system_.threads.yield();
  for (const Kept& kept : kept_) {
    for (const UcxOperation& operation : kept.operations) {
      if (operation.request_ != nullptr) table_.request_free(operation.request_);
    }
  }
  if (descriptor_ != kNoHandle) poller_.remove(descriptor_);
  table_.worker_destroy(handle_);
}

Result<std::shared_ptr<UcxLink>> UcxWorker::link_to(const std::string& address) {
  std::shared_ptr<UcxLink> known;  // outlives the lock, which its end would take
  const std::lock_guard lock(mutex_);
  known = links_[address].lock();
  if (known != nullptr && known->state_ == UCS_OK) return known;
  std::shared_ptr<UcxLink> made(new UcxLink(shared_from_this()));
  ucs_status_t status = connect(made.get(), address);
  if (status == UCS_ERR_UNREACHABLE) {  // older versions see no failures over shared memory; the socket does
    made->notices_failures_ = false;
    status = connect(made.get(), address);
  }
  if (status != UCS_OK) return ucx_failure(table_, "cannot reach the peer's worker", status);
  links_[address] = made;
  return made;
}

ucs_status_t UcxWorker::connect(UcxLink* link, const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = link->notices_failures_ ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler = {UcxLink::on_error, link};
  params.user_data = link;
  return table_.ep_create(handle_, &params, &link->endpoint_);
}

void UcxWorker::end(const UcxLink& link) {
  const std::lock_guard lock(mutex_);
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  // Where it works, what was sent goes before it ends.
  params.flags = link.state_ == UCS_OK ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
  const auto closing = begun("cannot close the way to a peer", table_.ep_close_nbx(link.endpoint_, &params));
  if (closing.ok()) kept_.push_back({nullptr, {*closing}});
}

void UcxWorker::progress() {
  const std::lock_guard lock(mutex_);
  move();
}

unsigned UcxWorker::move() {
  const unsigned moved = table_.worker_progress(handle_);
  if (moved != 0) moves_.store(moves() + moved, std::memory_order_relaxed);
  if (kept_.empty()) return moved;
  std::erase_if(kept_, [&](Kept& kept) {
    // A failed one is over, too.
    std::erase_if(kept.operations, [&](UcxOperation& operation) {
      const auto done = look(&operation);
      return !done.ok() || *done;
    });
    return kept.operations.empty();
  });
  return moved;
}

Status UcxWorker::arm() {
  const std::lock_guard lock(mutex_);
  ucs_status_t status = table_.worker_arm(handle_);
  if (status == UCS_ERR_BUSY) {
    move();
    status = table_.worker_arm(handle_);
  }
  if (status == UCS_ERR_BUSY) poller_.wake();  // there is news already
  return status == UCS_OK || status == UCS_ERR_BUSY ? Status() : ucx_failure(table_, "cannot be waited for", status);
}

void UcxWorker::open(uint64_t token, UcxInbox* inbox) {
  const std::lock_guard lock(mutex_);
  inboxes_[token] = inbox;
}

void UcxWorker::close(uint64_t token) {
  const std::lock_guard lock(mutex_);
  inboxes_.erase(token);
}

ucs_status_t UcxWorker::on_message(void* self, const void* header, size_t header_bytes, void* data, size_t length,
                                   const ucp_am_recv_param_t* param) {
  UcxHeader read;
  if (header_bytes != sizeof(read)) return UCS_OK;
  std::memcpy(&read, header, sizeof(read));
  // A message for a pipe that is closed, or never was, is dropped.
  const auto& inboxes = static_cast<UcxWorker*>(self)->inboxes_;
  const auto found = inboxes.find(read.to);
  if (found == inboxes.end()) return UCS_OK;
  const bool offered = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const auto kind = offered ? UcxArrival::Kind::kOffered : UcxArrival::Kind::kHere;
  return found->second->put(read, kind, data, length) ? UCS_INPROGRESS : UCS_OK;
}

Result<UcxOperation> UcxWorker::begun(std::string_view what, ucs_status_ptr_t request) const {
  if (UCS_PTR_IS_ERR(request)) return ucx_failure(table_, what, UCS_PTR_RAW_STATUS(request));
  UcxOperation operation;
  operation.request_ = request;
  return operation;
}

Result<UcxOperation> UcxWorker::send(UcxLink& link, const UcxHeader& header, std::span<const std::byte> data) {
  const std::lock_guard lock(mutex_);
  const ucp_request_param_t params{};
  return begun("cannot send", table_.am_send_nbx(link.endpoint_, kMessages, &header, sizeof(header), data.data(),
                                                 data.size(), &params));
}

Result<UcxOperation> UcxWorker::fetch(void* offer, std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  const ucp_request_param_t params{};
  return begun("cannot fetch a message", table_.am_recv_data_nbx(handle_, offer, into.data(), into.size(), &params));
}

Result<UcxOperation> UcxWorker::send_marker(UcxLink& link) {
  static constexpr UcxHeader kNoPipe{};
  return send(link, kNoPipe, {});
}

Result<bool> UcxWorker::is_done(UcxOperation* operation) {
  if (operation->has_ended()) return true;
  const std::lock_guard lock(mutex_);
  return look(operation);
}

Result<bool> UcxWorker::look(UcxOperation* operation) const {
  if (operation->has_ended()) return true;
  const ucs_status_t status = table_.request_check_status(operation->request_);
  if (status == UCS_INPROGRESS) return false;
  table_.request_free(operation->request_);
  operation->request_ = nullptr;
  if (status != UCS_OK) return ucx_failure(table_, "the connection broke", status);
  return true;
}

void UcxWorker::drop(void* data) {
  const std::lock_guard lock(mutex_);
  table_.am_data_release(handle_, data);
}

void UcxWorker::keep(std::shared_ptr<void> memory, std::vector<UcxOperation> operations) {
  const std::lock_guard lock(mutex_);
  kept_.push_back({std::move(memory), std::move(operations)});
}

}  // namespace hocket
