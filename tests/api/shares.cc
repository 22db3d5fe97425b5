// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What every collective means: where each rank's elements come from.
#include <numeric>

#include "tests/api/grid.h"

namespace hocket::test {
namespace {

// How many elements `from` has for `to` in a v-form: unequal, some of them none.
size_t part(const Case& one, int from, int to) {
  if ((from + 2 * to) % 4 == 1) return 0;
  return one.count + static_cast<size_t>((3 * from + to) % 5);
}

// Where the parts begin: packed, or last rank first with gaps between.
std::vector<size_t> offsets_of(const std::vector<size_t>& counts, bool gaps) {
  std::vector<size_t> offsets(counts.size());
  if (!gaps) {
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), size_t{0});
    return offsets;
  }
  size_t next = 2;
  for (size_t i = counts.size(); i-- > 0;) {
    offsets[i] = next;
    next += counts[i] + 3;
  }
  return offsets;
}

size_t span_of(const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
  size_t span = 0;
  for (size_t i = 0; i < counts.size(); ++i) span = std::max(span, offsets[i] + counts[i]);
  return span;
}

class Sharing {
 public:
  Sharing(const Case& one, const Numbers& numbers, int rank, int ranks)
      : one_(one), numbers_(numbers), rank_(rank), ranks_(ranks), count_(one.count), r_(static_cast<size_t>(rank)) {}

  Share run() {
    const bool is_root = rank_ == one_.root;
    const Table& own = numbers_.contributions[r_];
    const size_t all = count_ * static_cast<size_t>(ranks_);
    switch (one_.function) {
      case Function::kAllReduce:
        return simple(count_, {0, count_, &numbers_.total, 0});
      case Function::kScan:
        return simple(count_, {0, count_, &numbers_.partial[r_], 0});
      case Function::kExScan:
        share_.receives = rank_ > 0;
        return simple(count_, {0, count_, rank_ > 0 ? &numbers_.partial[r_ - 1] : nullptr, 0});
      case Function::kReduce:
        share_.receives = is_root;
        return simple(count_, {0, count_, &numbers_.total, 0});
      case Function::kBroadcast:
        share_.sends = is_root;
        return simple(count_, {0, count_, &numbers_.contributions[static_cast<size_t>(one_.root)], 0});
      case Function::kReduceScatter:
        share_.recv_in_send = r_ * count_;
        return simple(all, {0, count_, &numbers_.total, r_ * count_});
      case Function::kScatter:
        share_.sends = is_root;
        share_.recv_in_send = r_ * count_;
        return simple(all, {0, count_, &numbers_.contributions[static_cast<size_t>(one_.root)], r_ * count_});
      case Function::kAllGather:
        return gather_equal(0);
      case Function::kGather:
        share_.receives = is_root;
        return gather_equal(0);
      case Function::kAllToAll:
      case Function::kSendRecv:
        send(0, all, own, 0);
        return gather_equal(r_ * count_);
      case Function::kAllGatherV:
        return gather_v(true);
      case Function::kGatherV:
        return gather_v(is_root);
      case Function::kScatterV:
        return scatter_v(is_root);
      case Function::kReduceScatterV:
        return reduce_scatter_v();
      case Function::kAllToAllV:
        return all_to_all_v();
    }
    return share_;
  }

 private:
  void send(size_t at, size_t count, const Table& table, size_t phase) {
    share_.sent.push_back({at, count, &table, phase});
    share_.send_span = std::max(share_.send_span, at + count);
  }

  void receive(const Stretch& stretch) {
    share_.recv_span = std::max(share_.recv_span, stretch.at + stretch.count);
    if (share_.receives) share_.received.push_back(stretch);
  }

  // Sends all its elements and receives one stretch.
  Share simple(size_t sent, const Stretch& received) {
    send(0, sent, numbers_.contributions[r_], 0);
    receive(received);
    return share_;
  }

  // A block from every rank.
  Share gather_equal(size_t phase) {
    if (share_.sent.empty()) send(0, count_, numbers_.contributions[r_], 0);
    share_.send_in_recv = one_.function == Function::kAllToAll ? 0 : r_ * count_;
    for (size_t from = 0; from < static_cast<size_t>(ranks_); ++from) {
      receive({from * count_, count_, &numbers_.contributions[from], phase});
    }
    return share_;
  }

  Share gather_v(bool receives) {
    for (int from = 0; from < ranks_; ++from) share_.recv_counts.push_back(part(one_, from, 0));
    share_.recv_offsets = offsets_of(share_.recv_counts, one_.gaps);
    share_.send_in_recv = share_.recv_offsets[r_];
    share_.receives = receives;
    send(0, share_.recv_counts[r_], numbers_.contributions[r_], 0);
    for (size_t from = 0; from < static_cast<size_t>(ranks_); ++from) {
      receive({share_.recv_offsets[from], share_.recv_counts[from], &numbers_.contributions[from], 0});
    }
    share_.send_counts = {share_.recv_counts[r_]};
    return share_;
  }

  Share scatter_v(bool is_root) {
    const auto root = static_cast<size_t>(one_.root);
    for (int to = 0; to < ranks_; ++to) share_.send_counts.push_back(part(one_, 0, to));
    share_.send_offsets = offsets_of(share_.send_counts, one_.gaps);
    share_.recv_in_send = share_.send_offsets[r_];
    share_.sends = is_root;
    send(0, span_of(share_.send_counts, share_.send_offsets), numbers_.contributions[r_], 0);
    receive({0, share_.send_counts[r_], &numbers_.contributions[root], share_.send_offsets[r_]});
    share_.recv_counts = {share_.send_counts[r_]};
    return share_;
  }

  Share reduce_scatter_v() {
    for (int to = 0; to < ranks_; ++to) share_.recv_counts.push_back(part(one_, 0, to));
    const std::vector<size_t> offsets = offsets_of(share_.recv_counts, false);
    share_.recv_in_send = offsets[r_];
    send(0, span_of(share_.recv_counts, offsets), numbers_.contributions[r_], 0);
    receive({0, share_.recv_counts[r_], &numbers_.total, offsets[r_]});
    return share_;
  }

  Share all_to_all_v() {
    for (int peer = 0; peer < ranks_; ++peer) {
      share_.send_counts.push_back(part(one_, rank_, peer));
      share_.recv_counts.push_back(part(one_, peer, rank_));
    }
    share_.send_offsets = offsets_of(share_.send_counts, one_.gaps);
    share_.recv_offsets = offsets_of(share_.recv_counts, !one_.gaps);
    for (size_t peer = 0; peer < static_cast<size_t>(ranks_); ++peer) {
      // The phase tells the receiver's part of the sender's buffer from all others.
      send(share_.send_offsets[peer], share_.send_counts[peer], numbers_.contributions[r_], 17 * peer);
      receive({share_.recv_offsets[peer], share_.recv_counts[peer], &numbers_.contributions[peer], 17 * r_});
    }
    return share_;
  }

  const Case& one_;
  const Numbers& numbers_;
  const int rank_;
  const int ranks_;
  const size_t count_;
  const size_t r_;
  Share share_;
};

}  // namespace

Share share_of(const Case& one, const Numbers& numbers, int rank, int ranks) {
  return Sharing(one, numbers, rank, ranks).run();
}

hocketResult_t issue(const Case& one, const Share& share, const Buffers& buffers, hocketRedOp_t op,
                     const Member& member, hocketStream_t stream) {
  const auto [send, recv] = buffers;
  const size_t count = one.count;
  const hocketDataType_t type = one.type;
  const hocketComm_t comm = member.comm;
  // Packed displacements may be left out.
  const auto offsets = [&](const std::vector<size_t>& list, bool gaps) {
    return gaps || count % 2 == 0 ? list.data() : nullptr;
  };
  switch (one.function) {
    case Function::kAllReduce:
      return hocketAllReduce(send, recv, count, type, op, comm, stream);
    case Function::kBroadcast:
      if (send == recv) return hocketBcast(recv, count, type, one.root, comm, stream);
      return hocketBroadcast(send, recv, count, type, one.root, comm, stream);
    case Function::kReduce:
      return hocketReduce(send, recv, count, type, op, one.root, comm, stream);
    case Function::kAllGather:
      return hocketAllGather(send, recv, count, type, comm, stream);
    case Function::kReduceScatter:
      return hocketReduceScatter(send, recv, count, type, op, comm, stream);
    case Function::kAllToAll:
      return hocketAllToAll(send, recv, count, type, comm, stream);
    case Function::kGather:
      return hocketGather(send, recv, count, type, one.root, comm, stream);
    case Function::kScatter:
      return hocketScatter(send, recv, count, type, one.root, comm, stream);
    case Function::kScan:
      return hocketScan(send, recv, count, type, op, comm, stream);
    case Function::kExScan:
      return hocketExScan(send, recv, count, type, op, comm, stream);
    case Function::kAllGatherV:
      return hocketAllGatherV(send, share.send_counts[0], recv, share.recv_counts.data(),
                              offsets(share.recv_offsets, one.gaps), type, comm, stream);
    case Function::kReduceScatterV:
      return hocketReduceScatterV(send, recv, share.recv_counts.data(), type, op, comm, stream);
    case Function::kAllToAllV:
      return hocketAllToAllV(send, share.send_counts.data(), offsets(share.send_offsets, one.gaps), recv,
                             share.recv_counts.data(), offsets(share.recv_offsets, !one.gaps), type, comm, stream);
    case Function::kGatherV:
      return hocketGatherV(send, share.send_counts[0], recv, share.recv_counts.data(),
                           offsets(share.recv_offsets, one.gaps), type, one.root, comm, stream);
    case Function::kScatterV:
      return hocketScatterV(send, share.send_counts.data(), offsets(share.send_offsets, one.gaps), recv,
                            share.recv_counts[0], type, one.root, comm, stream);
    case Function::kSendRecv:
      break;
  }
  hocketGroupStart();
  for (int peer = 0; peer < member.ranks; ++peer) {
    const size_t at = static_cast<size_t>(peer) * count * bytes_of(type);
    // In which order the two sides are named does not matter.
    if (peer % 2 == 0) hocketSend(static_cast<const std::byte*>(send) + at, count, type, peer, comm, stream);
    hocketRecv(static_cast<std::byte*>(recv) + at, count, type, peer, comm, stream);
    if (peer % 2 == 1) hocketSend(static_cast<const std::byte*>(send) + at, count, type, peer, comm, stream);
  }
  return hocketGroupEnd();
}

}  // namespace hocket::test
