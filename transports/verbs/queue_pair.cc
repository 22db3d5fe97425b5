// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/queue_pair.h"

#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/descriptor.h"

namespace hocket {
namespace {

constexpr uint32_t kInlineBytes = 220;  // what most devices copy into a request
constexpr uint32_t k24Bits = 0xFFFFFF;
// Of what is not acknowledged: 4.096 us * 2^16 = 0.27 s, seven times: a busy host may be silent for a second, and who
// is silent for five is dead to the mesh. Seven repetitions would mean for ever to some devices.
constexpr uint8_t kAckTimeout = 16;
constexpr uint8_t kRetries = 6;
constexpr uint8_t kNotReadyRetries = 6;
constexpr uint8_t kNotReadyTimer = 12;  // 0.64 ms
constexpr uint8_t kHops = 64;

// Of each role.
struct Accesses {
  int memory;   // to it, by whom it concerns
  int lasting;  // to what keys_for() tells of
  int peer;     // what the peer may do at all
};

constexpr Accesses accesses_of(QueuePair::Role role) {
  switch (role) {
    case QueuePair::Role::kReceiver:
      return {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE};
    case QueuePair::Role::kAccessor:
      return {IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE, 0};
    case QueuePair::Role::kTarget:
      return {0, 0, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    case QueuePair::Role::kSender:
      break;
  }
  return {0, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ};
}

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::open(const VerbsTable& table, const VerbsPort& port,
                                                   std::span<std::byte> memory, const Options& options) {
  std::unique_ptr<QueuePair> made(new QueuePair(table, port, options));
  HOCKET_TRY(made->create(memory));
  HOCKET_TRY(made->initialise());
  HOCKET_TRY(made->post_receives(made->receives()));
  return made;
}

QueuePair::QueuePair(const VerbsTable& table, const VerbsPort& port, const Options& options)
    : table_(table), port_(port), options_(options), first_packet_(std::random_device()() & k24Bits) {}

QueuePair::~QueuePair() {
  if (channel_ != nullptr && completions_ != nullptr) drain_events();
  if (pair_ != nullptr) table_.destroy_qp(pair_);
  if (completions_ != nullptr) table_.destroy_cq(completions_);
  if (channel_ != nullptr) table_.destroy_comp_channel(channel_);
  lasting_.reset();
  if (region_ != nullptr) table_.dereg_mr(region_);
  if (domain_ != nullptr && options_.domain == nullptr) table_.dealloc_pd(domain_);
}

Status QueuePair::failure(std::string_view what, int error) const {
  return system_failure(fmt::format("{}: {}", port_.name, what), error);
}

Status QueuePair::create(std::span<std::byte> memory) {
  domain_ = options_.domain != nullptr ? options_.domain : table_.alloc_pd(port_.context);
  if (domain_ == nullptr) return failure("cannot make a protection domain", errno);
  lasting_ = std::make_unique<Registrations>(table_, domain_, accesses_of(options_.role).lasting, port_.name);
  HOCKET_TRY(register_memory(memory));
  return create_queues();
}

Status QueuePair::register_memory(std::span<std::byte> memory) {
  if (memory.empty()) return {};
  memory_ = memory;
  region_ = table_.reg_mr(domain_, memory.data(), memory.size(), accesses_of(options_.role).memory);
  if (region_ != nullptr) return {};
  return failure(fmt::format("cannot register {} bytes of memory (ulimit -l?)", memory.size()), errno);
}

Status QueuePair::create_queues() {
  channel_ = table_.create_comp_channel(port_.context);
  if (channel_ == nullptr) return failure("cannot make a completion channel", errno);
  const int flags = ::fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return failure("cannot make a completion channel that does not block", errno);
  }
  const auto entries = static_cast<int>(options_.sends + receives());
  completions_ = table_.create_cq(port_.context, entries, nullptr, channel_, 0);
  if (completions_ == nullptr) return failure("cannot make a completion queue", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions_;
  wanted.cap = {options_.sends, receives(), 1, 1, kInlineBytes};
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 1;
  pair_ = table_.create_qp(domain_, &wanted);
  if (pair_ == nullptr) {  // some devices hold less
    wanted.cap = {options_.sends, receives(), 1, 1, 0};
    pair_ = table_.create_qp(domain_, &wanted);
  }
  if (pair_ == nullptr) return failure("cannot make a queue pair", errno);
  max_inline_ = wanted.cap.max_inline_data;
  return {};
}

Status QueuePair::initialise() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_.number;
  attributes.qp_access_flags = static_cast<unsigned>(accesses_of(options_.role).peer);
  const int error =
      table_.modify_qp(pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? Status() : failure("cannot initialise a queue pair", error);
}

VerbsCard QueuePair::card() const {
  VerbsCard card;
  card.fabric = port_.fabric;
  card.lid = port_.lid;
  card.mtu = port_.mtu;
  card.queue_pair = pair_->qp_num & k24Bits;
  card.first_packet = first_packet_;
  return card;
}

Status QueuePair::connect(const VerbsCard& peer, const VerbsGid& gid) {
  HOCKET_TRY(make_ready_to_receive(peer, gid));
  return make_ready_to_send();
}

Status QueuePair::make_ready_to_receive(const VerbsCard& peer, const VerbsGid& gid) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(port_.mtu, peer.mtu);
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kNotReadyTimer;
  attributes.ah_attr.port_num = port_.number;
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.sl = port_.marks.service_level;
  if (port_.fabric == Fabric::kEthernet) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid.raw.data(), peer.gid.raw.size());
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid.index);
    attributes.ah_attr.grh.hop_limit = kHops;
    attributes.ah_attr.grh.traffic_class = port_.marks.traffic_class;
  }
  const int error = table_.modify_qp(pair_, &attributes,
                                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) return {};
  return failure(fmt::format("cannot reach queue pair {} at {} from {}", peer.queue_pair, peer.gid.text(), gid.text()),
                 error);
}

Status QueuePair::make_ready_to_send() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = first_packet_;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kNotReadyRetries;
  attributes.max_rd_atomic = 1;
  const int error = table_.modify_qp(
      pair_, &attributes,
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  return error == 0 ? Status() : failure("cannot make a queue pair ready to send", error);
}

std::optional<uint32_t> QueuePair::local_key(std::span<const std::byte> bytes) {
  const bool is_ours = bytes.data() >= memory_.data() && bytes.data() + bytes.size() <= memory_.data() + memory_.size();
  if (is_ours) return region_->lkey;
  const auto keys = keys_for(bytes);
  return keys ? std::optional(keys->local) : std::nullopt;
}

Status QueuePair::post(ibv_wr_opcode opcode, std::span<const std::byte> bytes, uint32_t local_key, uint64_t address,
                       uint32_t key, uint32_t immediate) {
  ibv_sge piece{reinterpret_cast<uint64_t>(bytes.data()), static_cast<uint32_t>(bytes.size()), local_key};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  const bool is_inline = opcode != IBV_WR_RDMA_READ && bytes.size() <= max_inline_;
  request.send_flags = is_inline ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u;
  request.imm_data = htobe32(immediate);
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  return post(&request);
}

Status QueuePair::write(std::span<const std::byte> part, uint64_t address, uint32_t key, RingAmount amount) {
  return post(IBV_WR_RDMA_WRITE_WITH_IMM, part, region_->lkey, address, key, amount.pack());
}

Status QueuePair::put(std::span<const std::byte> from, uint64_t address, uint32_t key) {
  const auto ours = from.size() <= max_inline_ ? std::optional<uint32_t>(0) : local_key(from);
  if (!ours) return failure(fmt::format("cannot register {} bytes of memory", from.size()), ENOMEM);
  return post(IBV_WR_RDMA_WRITE, from, *ours, address, key);
}

Status QueuePair::read(std::span<std::byte> into, uint64_t address, uint32_t key) {
  const auto ours = local_key(into);
  if (!ours) return failure(fmt::format("cannot register {} bytes of memory", into.size()), ENOMEM);
  return post(IBV_WR_RDMA_READ, into, *ours, address, key);
}

Status QueuePair::notify(RingAmount amount) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htobe32(amount.pack());
  return post(&request);
}

Status QueuePair::post(ibv_send_wr* request) {
  ibv_send_wr* bad = nullptr;
  const int error = table_.post_send(pair_, request, &bad);
  if (error != 0) return failure("cannot post a send", error);
  ++sent_;
  return {};
}

Status QueuePair::post_receives(uint32_t count) {
  std::array<ibv_recv_wr, kBatch> requests{};
  for (uint32_t left = count; left > 0;) {
    const uint32_t some = std::min(left, kBatch);
    for (uint32_t i = 0; i < some; ++i) requests[i].next = i + 1 < some ? &requests[i + 1] : nullptr;
    ibv_recv_wr* bad = nullptr;
    const int error = table_.post_recv(pair_, requests.data(), &bad);
    if (error != 0) return failure("cannot post a receive", error);
    left -= some;
  }
  return {};
}

// All that is there: behind many sends that are done may be the room for the next one.
Status QueuePair::poll(RingAmount* told) {
  Status first;
  while (has_news()) {
    const int count = std::exchange(news_, 0);
    if (count < 0) return failure("cannot look at the completion queue", -count);
    for (int i = 0; i < count; ++i) {
      Status status = on_completion(batch_[static_cast<size_t>(i)], told);
      if (first.ok()) first = std::move(status);
    }
    if (count < static_cast<int>(kBatch)) break;
  }
  if (used_ < kBatch) return first;
  Status posted = post_receives(std::exchange(used_, 0));
  return first.ok() ? posted : first;
}

void QueuePair::stop() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  (void)table_.modify_qp(pair_, &attributes, IBV_QP_STATE);
}

Status QueuePair::on_completion(const ibv_wc& completion, RingAmount* told) {
  if (completion.status != IBV_WC_SUCCESS) {
    refused_ |= completion.status == IBV_WC_REM_ACCESS_ERR;
    return Status(Code::kRemote,
                  fmt::format("{}: the connection broke: {}", port_.name, table_.wc_status_str(completion.status)));
  }
  if ((completion.opcode & IBV_WC_RECV) == 0) {
    ++completed_;
    if (completion.opcode == IBV_WC_RDMA_READ) ++reads_;
    return {};
  }
  if ((completion.wc_flags & IBV_WC_WITH_IMM) == 0) {
    return Status(Code::kInternal, fmt::format("{}: a message without an amount came", port_.name));
  }
  const RingAmount amount = RingAmount::unpack(be32toh(completion.imm_data));
  told->bytes += amount.bytes;
  told->frames += amount.frames;
  ++used_;
  return {};
}

Status QueuePair::arm() {
  drain_events();
  if (armed_) return {};
  const int error = table_.req_notify_cq(completions_, 0);
  if (error != 0) return failure("cannot ask for completion events", error);
  armed_ = true;
  return {};
}

void QueuePair::drain_events() {
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  while (table_.get_cq_event(channel_, &queue, &user) == 0) {
    table_.ack_cq_events(queue, 1);
    armed_ = false;
  }
}

}  // namespace hocket
