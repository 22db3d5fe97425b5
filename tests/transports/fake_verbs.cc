// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "fake_verbs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace hocket::test {
namespace {

struct Queue;

struct Channel : ibv_comp_channel {
  int write_end = -1;
  Queue* queue = nullptr;
};

struct Queue : ibv_cq {
  std::deque<ibv_wc> completions;
  bool armed = false;
  unsigned unacknowledged = 0;  // events
};

struct Region : ibv_mr {
  int access = 0;
  std::byte* mapped = nullptr;  // of a dma-buf: where we reach it, and so many bytes
  size_t mapped_bytes = 0;
  size_t offset = 0;  // in what is mapped

  bool is_dma_buf() const { return mapped != nullptr; }
  std::byte* reach(uint64_t address) const {
    return is_dma_buf() ? mapped + offset + (address - reinterpret_cast<uint64_t>(addr))
                        : reinterpret_cast<std::byte*>(address);
  }
};

struct Pair : ibv_qp {
  ibv_qp_cap cap{};
  size_t port = 0;
  uint32_t peer = 0;
  FakePath path;
  uint32_t first_packet_in = 0;
  uint32_t first_packet_out = 0;
  int access = 0;
  uint32_t posted = 0;  // receives
  bool silent = false;
  uint32_t under_way = 0;  // sends, as far as their owner knows
  std::vector<ibv_wc> held;
};

// A write that is on its way.
struct Late {
  uint32_t from = 0;
  ibv_send_wr request{};
  std::vector<std::byte> data;
};

struct Fault {
  FakeCall call = FakeCall::kNone;
  int after = 0;
  int error = 0;
};

struct World {
  std::mutex mutex;
  std::vector<FakePort> ports;
  ibv_device device{};
  ibv_device* list[2] = {&device, nullptr};
  ibv_context context{};
  std::map<uint32_t, Pair*> pairs;
  std::map<uint32_t, Region*> regions;
  uint32_t next_number = 0x100;
  size_t objects = 0;
  size_t openings = 0;
  size_t fork_inits = 0;
  bool used = false;  // devices were looked for
  bool may_fork = false;
  size_t registered = 0;
  size_t in_dma_bufs = 0;  // of these
  bool hold = false;
  bool apart = false;
  bool delay = false;
  bool gone = false;
  std::vector<Late> late;
  size_t reads = 0;
  size_t inline_sends = 0;
  Fault fault;

  bool fails(FakeCall call) {
    if (gone) return errno = EIO, true;
    if (fault.call != call || fault.after-- > 0) return false;
    fault.call = FakeCall::kNone;
    errno = fault.error;
    return true;
  }
};

World& world() {
  static World the_world;
  return the_world;
}

void push(Queue& queue, const ibv_wc& completion) {
  EXPECT_LT(queue.completions.size(), static_cast<size_t>(queue.cqe)) << "the completion queue overran";
  queue.completions.push_back(completion);
  if (!queue.armed) return;
  queue.armed = false;
  const char one = 1;
  EXPECT_EQ(::write(static_cast<Channel*>(queue.channel)->write_end, &one, 1), 1);
}

void complete(Pair& pair, ibv_wc_status status, ibv_wc_opcode opcode) {
  ibv_wc completion{};
  completion.status = status;
  completion.opcode = opcode;
  completion.qp_num = pair.qp_num;
  if (world().hold && status == IBV_WC_SUCCESS) return pair.held.push_back(completion);
  push(*static_cast<Queue*>(pair.send_cq), completion);
}

void tell(Pair& pair, uint32_t immediate) {
  --pair.posted;
  ibv_wc completion{};
  completion.opcode = IBV_WC_RECV;
  completion.wc_flags = IBV_WC_WITH_IMM;
  completion.imm_data = immediate;
  push(*static_cast<Queue*>(pair.recv_cq), completion);
}

// Of the peer's memory, to which a request may do this.
Region* region_for(const Pair& pair, const ibv_send_wr& request, uint32_t length, int access) {
  const auto found = world().regions.find(request.wr.rdma.rkey);
  if (found == world().regions.end()) return nullptr;
  Region* region = found->second;
  const auto begin = reinterpret_cast<uint64_t>(region->addr);
  const uint64_t offset = request.wr.rdma.remote_addr - begin;
  const bool inside =
      request.wr.rdma.remote_addr >= begin && offset <= region->length && length <= region->length - offset;
  const bool allowed = (region->access & access) != 0 && (pair.access & access) != 0;
  return inside && allowed && region->pd == pair.pd ? region : nullptr;
}

// Where the piece of a request lies for us.
std::byte* reach(const Pair& pair, const ibv_sge& piece) {
  for (const auto& [key, region] : world().regions) {
    if (region->lkey == piece.lkey && region->pd == pair.pd) return region->reach(piece.addr);
  }
  return reinterpret_cast<std::byte*>(piece.addr);  // in the request
}

bool is_up(const Pair& pair) { return world().ports[pair.port - 1].up; }

// A packet of a connection, to be written where its key opens something.
ibv_wc_status write_to(Pair& peer, const ibv_send_wr& request, const void* data, uint32_t length) {
  const Region* const region = region_for(peer, request, length, IBV_ACCESS_REMOTE_WRITE);
  if (region == nullptr) {
    peer.state = IBV_QPS_ERR;
    return IBV_WC_REM_ACCESS_ERR;
  }
  std::memcpy(region->reach(request.wr.rdma.remote_addr), data, length);
  return IBV_WC_SUCCESS;
}

// What becomes of a request at the peer.
ibv_wc_status deliver(const Pair& pair, const ibv_send_wr& request) {
  const auto found = world().pairs.find(pair.peer);
  if (found == world().pairs.end()) return IBV_WC_RETRY_EXC_ERR;
  Pair& peer = *found->second;
  const bool connected = (peer.state == IBV_QPS_RTR || peer.state == IBV_QPS_RTS) && peer.peer == pair.qp_num &&
                         peer.first_packet_in == pair.first_packet_out;
  const bool reached = is_up(pair) && is_up(peer) && (!world().apart || pair.port == peer.port);
  if (!connected || !reached) return IBV_WC_RETRY_EXC_ERR;
  if (request.opcode == IBV_WR_RDMA_READ) {
    const ibv_sge& piece = request.sg_list[0];
    const Region* const region = region_for(peer, request, piece.length, IBV_ACCESS_REMOTE_READ);
    if (region == nullptr) {
      peer.state = IBV_QPS_ERR;
      return IBV_WC_REM_ACCESS_ERR;
    }
    std::memcpy(reach(pair, piece), region->reach(request.wr.rdma.remote_addr), piece.length);
    ++world().reads;
    return IBV_WC_SUCCESS;
  }
  if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || request.opcode == IBV_WR_RDMA_WRITE) {
    const ibv_sge& piece = request.sg_list[0];
    const ibv_wc_status written = write_to(peer, request, reach(pair, piece), piece.length);
    if (written != IBV_WC_SUCCESS || request.opcode == IBV_WR_RDMA_WRITE) return written;
  }
  if (peer.posted == 0) return IBV_WC_RNR_RETRY_EXC_ERR;
  tell(peer, request.imm_data);
  return IBV_WC_SUCCESS;
}

bool is_registered(const Pair& pair, const ibv_sge& piece, int access) {
  return std::any_of(world().regions.begin(), world().regions.end(), [&](const auto& entry) {
    const Region& region = *entry.second;
    const auto begin = reinterpret_cast<uint64_t>(region.addr);
    return region.lkey == piece.lkey && (region.access & access) == access && region.pd == pair.pd &&
           piece.addr >= begin && piece.addr + piece.length <= begin + region.length;
  });
}

ibv_wc_opcode completion_of(const ibv_send_wr& request) {
  if (request.opcode == IBV_WR_RDMA_READ) return IBV_WC_RDMA_READ;
  return request.num_sge == 1 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
}

int post_send(ibv_qp* posted, ibv_send_wr* request, ibv_send_wr** bad) {
  const std::lock_guard lock(world().mutex);
  auto& pair = *static_cast<Pair*>(posted);
  *bad = request;
  if (world().fails(FakeCall::kPost)) return errno;
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
  if (pair.under_way == pair.cap.max_send_wr) return ENOMEM;
  const bool is_inline = (request->send_flags & IBV_SEND_INLINE) != 0;
  if (is_inline && request->sg_list[0].length > pair.cap.max_inline_data) return EINVAL;
  const int access = request->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
  if (request->num_sge == 1 && !is_inline && !is_registered(pair, request->sg_list[0], access)) return EFAULT;
  ++pair.under_way;
  if (pair.silent && pair.state != IBV_QPS_ERR) return 0;
  if (is_inline) ++world().inline_sends;
  if (world().delay && pair.state != IBV_QPS_ERR && request->opcode == IBV_WR_RDMA_WRITE) {
    const ibv_sge& piece = request->sg_list[0];
    const std::byte* const data = reach(pair, piece);
    world().late.push_back({pair.qp_num, *request, {data, data + piece.length}});
    return 0;
  }
  if (world().delay && pair.state != IBV_QPS_ERR) return 0;  // it waits behind them
  const ibv_wc_status status = pair.state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : deliver(pair, *request);
  if (status != IBV_WC_SUCCESS) pair.state = IBV_QPS_ERR;
  complete(pair, status, completion_of(*request));
  return 0;
}

int post_recv(ibv_qp* posted, ibv_recv_wr* request, ibv_recv_wr** bad) {
  const std::lock_guard lock(world().mutex);
  auto& pair = *static_cast<Pair*>(posted);
  for (; request != nullptr; request = request->next) {
    *bad = request;
    if (pair.posted == pair.cap.max_recv_wr) return ENOMEM;
    ++pair.posted;
  }
  return 0;
}

int poll_cq(ibv_cq* polled, int max, ibv_wc* completions) {
  const std::lock_guard lock(world().mutex);
  auto& queue = *static_cast<Queue*>(polled);
  int count = 0;
  for (; count < max && !world().gone && !queue.completions.empty(); ++count) {
    completions[count] = queue.completions.front();
    queue.completions.pop_front();
    const auto pair = world().pairs.find(completions[count].qp_num);
    if (pair != world().pairs.end()) --pair->second->under_way;
  }
  return count;
}

int modify_qp(ibv_qp* modified, ibv_qp_attr* attributes, int mask) {
  const std::lock_guard lock(world().mutex);
  auto& pair = *static_cast<Pair*>(modified);
  const ibv_qp_state wanted = attributes->qp_state;
  if (wanted == IBV_QPS_ERR) return pair.state = wanted, 0;
  if (world().fails(FakeCall::kModifyPair)) return errno;
  const bool in_turn = (pair.state == IBV_QPS_RESET && wanted == IBV_QPS_INIT) ||
                       (pair.state == IBV_QPS_INIT && wanted == IBV_QPS_RTR) ||
                       (pair.state == IBV_QPS_RTR && wanted == IBV_QPS_RTS);
  if (!in_turn) return EINVAL;
  if (wanted == IBV_QPS_INIT) {
    pair.access = static_cast<int>(attributes->qp_access_flags);
    pair.port = attributes->port_num;
  }
  if (wanted == IBV_QPS_RTR) {
    constexpr int kNeeded = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER;
    if ((mask & kNeeded) != kNeeded) return EINVAL;
    pair.peer = attributes->dest_qp_num;
    pair.path = {attributes->ah_attr, attributes->path_mtu};
    pair.first_packet_in = attributes->rq_psn;
  }
  if (wanted == IBV_QPS_RTS) {
    EXPECT_LT(attributes->retry_cnt, 7) << "on some devices that is for ever";
    pair.first_packet_out = attributes->sq_psn;
  }
  pair.state = wanted;
  return 0;
}

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  const std::lock_guard lock(world().mutex);
  if (world().fails(FakeCall::kMakePair)) return nullptr;
  auto* pair = new Pair;
  pair->context = &world().context;
  pair->pd = domain;
  pair->send_cq = wanted->send_cq;
  pair->recv_cq = wanted->recv_cq;
  pair->cap = wanted->cap;
  pair->qp_num = world().next_number++;
  pair->state = IBV_QPS_RESET;
  world().pairs[pair->qp_num] = pair;
  ++world().objects;
  return pair;
}

int destroy_qp(ibv_qp* destroyed) {
  const std::lock_guard lock(world().mutex);
  world().pairs.erase(destroyed->qp_num);
  --world().objects;
  delete static_cast<Pair*>(destroyed);
  return 0;
}

Region* add_region(ibv_pd* domain, void* memory, size_t bytes, int access) {
  auto* region = new Region;
  region->pd = domain;
  region->addr = memory;
  region->length = bytes;
  region->access = access;
  region->lkey = region->rkey = world().next_number++;
  world().regions[region->rkey] = region;
  ++world().objects;
  world().registered += bytes;
  return region;
}

ibv_mr* reg_mr(ibv_pd* domain, void* memory, size_t bytes, int access) {
  const std::lock_guard lock(world().mutex);
  if (world().fails(FakeCall::kRegister)) return nullptr;
  return add_region(domain, memory, bytes, access);
}

ibv_mr* reg_dmabuf_mr(ibv_pd* domain, uint64_t offset, size_t bytes, uint64_t address, int file, int access) {
  const std::lock_guard lock(world().mutex);
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (world().fails(FakeCall::kRegisterDmaBuf)) return nullptr;
  const off_t begin = ::lseek(file, 0, SEEK_CUR);
  if (begin < 0 || offset % page != address % page) return errno = EINVAL, nullptr;
  void* const mapped = ::mmap(nullptr, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, begin);
  if (mapped == MAP_FAILED) return nullptr;
  Region* const region = add_region(domain, reinterpret_cast<void*>(address), bytes, access);
  region->mapped = static_cast<std::byte*>(mapped);
  region->mapped_bytes = offset + bytes;
  region->offset = offset;
  world().in_dma_bufs += bytes;
  return region;
}

int dereg_mr(ibv_mr* region) {
  const std::lock_guard lock(world().mutex);
  world().regions.erase(region->rkey);
  world().registered -= region->length;
  --world().objects;
  auto* const gone = static_cast<Region*>(region);
  if (gone->is_dma_buf()) {
    ::munmap(gone->mapped, gone->mapped_bytes);
    world().in_dma_bufs -= gone->length;
  }
  delete gone;
  return 0;
}

ibv_comp_channel* create_comp_channel(ibv_context*) {
  const std::lock_guard lock(world().mutex);
  int ends[2];
  if (world().fails(FakeCall::kMakeChannel) || ::pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  auto* channel = new Channel;
  channel->fd = ends[0];
  channel->write_end = ends[1];
  ++world().objects;
  return channel;
}

int destroy_comp_channel(ibv_comp_channel* destroyed) {
  const std::lock_guard lock(world().mutex);
  auto* channel = static_cast<Channel*>(destroyed);
  ::close(channel->fd);
  ::close(channel->write_end);
  --world().objects;
  delete channel;
  return 0;
}

ibv_cq* create_cq(ibv_context*, int entries, void*, ibv_comp_channel* channel, int) {
  const std::lock_guard lock(world().mutex);
  if (world().fails(FakeCall::kMakeQueue)) return nullptr;
  auto* queue = new Queue;
  queue->context = &world().context;
  queue->cqe = entries;
  queue->channel = channel;
  static_cast<Channel*>(channel)->queue = queue;
  ++world().objects;
  return queue;
}

int destroy_cq(ibv_cq* destroyed) {
  const std::lock_guard lock(world().mutex);
  auto* queue = static_cast<Queue*>(destroyed);
  EXPECT_EQ(queue->unacknowledged, 0u) << "a device would wait for ever";
  --world().objects;
  delete queue;
  return 0;
}

int get_cq_event(ibv_comp_channel* asked, ibv_cq** queue, void**) {
  auto* channel = static_cast<Channel*>(asked);
  char one = 0;
  if (::read(channel->fd, &one, 1) != 1) return -1;
  const std::lock_guard lock(world().mutex);
  ++channel->queue->unacknowledged;
  *queue = channel->queue;
  return 0;
}

void ack_cq_events(ibv_cq* queue, unsigned count) {
  const std::lock_guard lock(world().mutex);
  static_cast<Queue*>(queue)->unacknowledged -= count;
}

int req_notify_cq(ibv_cq* queue, int) {
  const std::lock_guard lock(world().mutex);
  static_cast<Queue*>(queue)->armed = true;
  return 0;
}

ibv_pd* alloc_pd(ibv_context*) {
  const std::lock_guard lock(world().mutex);
  if (world().fails(FakeCall::kAllocPd)) return nullptr;
  ++world().objects;
  return new ibv_pd{};
}

int dealloc_pd(ibv_pd* domain) {
  const std::lock_guard lock(world().mutex);
  --world().objects;
  delete domain;
  return 0;
}

int query_port(ibv_context*, uint8_t number, ibv_port_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  if (number == 0 || number > world().ports.size()) return EINVAL;
  if (world().gone) return EIO;
  const FakePort& port = world().ports[number - 1u];
  attributes->state = port.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->active_mtu = port.mtu;
  attributes->active_speed = port.speed;
  attributes->active_width = 1;
  attributes->lid = number;
  attributes->link_layer = port.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

ssize_t query_gid_table(ibv_context*, ibv_gid_entry* entries, size_t max, uint32_t, size_t) {
  size_t count = 0;
  for (size_t port = 0; port < world().ports.size(); ++port) {
    for (ibv_gid_entry gid : world().ports[port].gids) {
      gid.port_num = static_cast<uint32_t>(port + 1);
      if (count < max) entries[count++] = gid;
    }
  }
  return static_cast<ssize_t>(count);
}

VerbsTable make_table() {
  VerbsTable table{};
  table.fork_init = [] {
    ++world().fork_inits;
    if (world().used && !world().may_fork) return EINVAL;  // too late
    world().may_fork = true;
    return 0;
  };
  table.get_device_list = [](int* count) {
    world().used = true;
    *count = world().ports.empty() ? 0 : 1;
    return world().list;
  };
  table.free_device_list = [](ibv_device**) {};
  table.get_device_name = [](ibv_device*) { return world().ports.front().device.c_str(); };
  table.open_device = [](ibv_device*) {
    ++world().openings;
    return &world().context;
  };
  table.close_device = [](ibv_context*) { return 0; };
  table.query_port = query_port;
  table.query_gid_table = query_gid_table;
  table.alloc_pd = alloc_pd;
  table.dealloc_pd = dealloc_pd;
  table.reg_mr = reg_mr;
  table.reg_dmabuf_mr = reg_dmabuf_mr;
  table.dereg_mr = dereg_mr;
  table.create_comp_channel = create_comp_channel;
  table.destroy_comp_channel = destroy_comp_channel;
  table.create_cq = create_cq;
  table.destroy_cq = destroy_cq;
  table.get_cq_event = get_cq_event;
  table.ack_cq_events = ack_cq_events;
  table.req_notify_cq = req_notify_cq;
  table.poll_cq = poll_cq;
  table.create_qp = create_qp;
  table.modify_qp = modify_qp;
  table.destroy_qp = destroy_qp;
  table.post_send = post_send;
  table.post_recv = post_recv;
  table.wc_status_str = [](ibv_wc_status status) {
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "another error";
  };
  return table;
}

}  // namespace

ibv_gid_entry fake_gid(const char* address, uint32_t index, uint32_t type) {
  ibv_gid_entry entry{};
  EXPECT_EQ(::inet_pton(AF_INET6, address, entry.gid.raw), 1) << address;
  entry.gid_index = index;
  entry.gid_type = type;
  return entry;
}

void reset_fake_verbs() {
  EXPECT_EQ(fake_objects(), 0u) << "an earlier test left something behind";
  world().hold = world().apart = world().delay = world().gone = world().used = world().may_fork = false;
  world().late.clear();
  world().reads = world().inline_sends = 0;
  world().fault = {};
  FakePort port;
  port.gids = {fake_gid("fe80::1", 0), fake_gid("::ffff:10.0.0.1", 1)};
  set_fake_ports({port});
}

Result<const VerbsTable*> fake_verbs() {
  static const VerbsTable kTable = make_table();
  return &kTable;
}

void set_fake_ports(std::vector<FakePort> ports) { world().ports = std::move(ports); }

void fail_fake_call(FakeCall call, int after, int error) { world().fault = {call, after, error}; }

void break_fake_pairs(size_t port) {
  const std::lock_guard lock(world().mutex);
  for (auto& [number, pair] : world().pairs) {
    if ((port != 0 && pair->port != port) || pair->state == IBV_QPS_ERR) continue;
    pair->state = IBV_QPS_ERR;
    ++pair->under_way;
    complete(*pair, IBV_WC_RETRY_EXC_ERR, IBV_WC_RDMA_WRITE);
  }
}

void set_two_fake_ports() {
  FakePort fast;
  fast.speed = 64;
  fast.gids = {fake_gid("::ffff:10.0.0.1", 0)};
  FakePort slow;
  slow.gids = {fake_gid("::ffff:10.1.0.1", 1)};
  set_fake_ports({fast, slow});
}

void set_fake_port_up(size_t port, bool up) {
  const std::lock_guard lock(world().mutex);
  world().ports[port - 1].up = up;
}

void break_fake_senders() {
  const std::lock_guard lock(world().mutex);
  for (auto& [number, pair] : world().pairs) {
    if (pair->under_way == 0 || pair->state == IBV_QPS_ERR) continue;
    pair->state = IBV_QPS_ERR;
    complete(*pair, IBV_WC_RETRY_EXC_ERR, IBV_WC_RDMA_WRITE);
  }
}

void silence_fake_pair(size_t which) {
  const std::lock_guard lock(world().mutex);
  if (world().pairs.empty()) return;
  std::next(world().pairs.begin(), static_cast<std::ptrdiff_t>(which % world().pairs.size()))->second->silent = true;
}

void delay_fake_writes() {
  const std::lock_guard lock(world().mutex);
  world().delay = true;
}

size_t deliver_fake_writes() {
  const std::lock_guard lock(world().mutex);
  world().delay = false;
  size_t delivered = 0;
  for (const Late& late : std::exchange(world().late, {})) {
    for (auto& [number, pair] : world().pairs) {
      if (pair->peer != late.from || (pair->state != IBV_QPS_RTR && pair->state != IBV_QPS_RTS)) continue;
      const auto length = static_cast<uint32_t>(late.data.size());
      if (write_to(*pair, late.request, late.data.data(), length) == IBV_WC_SUCCESS) ++delivered;
    }
  }
  return delivered;
}

void remove_fake_device() {
  const std::lock_guard lock(world().mutex);
  world().gone = true;
}

void set_fake_networks_apart() { world().apart = true; }

size_t fake_connected_pairs(size_t port) {
  const std::lock_guard lock(world().mutex);
  return static_cast<size_t>(std::count_if(world().pairs.begin(), world().pairs.end(), [&](const auto& entry) {
    return entry.second->port == port && entry.second->state == IBV_QPS_RTS;
  }));
}

void hold_fake_acknowledgements(bool hold) {
  const std::lock_guard lock(world().mutex);
  world().hold = hold;
  if (hold) return;
  for (auto& [number, pair] : world().pairs) {
    for (const ibv_wc& completion : std::exchange(pair->held, {}))
      push(*static_cast<Queue*>(pair->send_cq), completion);
  }
}

void tell_fake_immediate(bool to_receivers, uint32_t immediate) {
  const std::lock_guard lock(world().mutex);
  for (auto& [number, pair] : world().pairs) {
    if (((pair->access & IBV_ACCESS_REMOTE_WRITE) != 0) == to_receivers) tell(*pair, htobe32(immediate));
  }
}

size_t fake_reads() {
  const std::lock_guard lock(world().mutex);
  return world().reads;
}

size_t fake_dma_buf_bytes() {
  const std::lock_guard lock(world().mutex);
  return world().in_dma_bufs;
}

std::vector<FakePath> fake_paths() {
  const std::lock_guard lock(world().mutex);
  std::vector<FakePath> paths;
  for (const auto& [number, pair] : world().pairs) paths.push_back(pair->path);
  return paths;
}

size_t fake_inline_sends() {
  const std::lock_guard lock(world().mutex);
  return world().inline_sends;
}

size_t fake_fork_inits() { return world().fork_inits; }

size_t fake_openings() { return world().openings; }

size_t fake_objects() {
  const std::lock_guard lock(world().mutex);
  return world().objects;
}

size_t fake_registered_bytes() {
  const std::lock_guard lock(world().mutex);
  return world().registered;
}

}  // namespace hocket::test
