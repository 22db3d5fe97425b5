// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/call_windows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/binding.h"
#include "plan/joint.h"

namespace hocket {
namespace {

constexpr Duration kLook = std::chrono::microseconds(100);

// How much of each buffer plans may reach into: blocks of `count` elements, or bytes.
struct Blocks {
  size_t send = 0;
  size_t recv = 0;
};

Blocks blocks(Collective collective, Rank ranks) {
  const auto all = static_cast<size_t>(ranks);
  switch (collective) {
    case Collective::kAllReduce:
      return {1, 1};
    case Collective::kReduce:
      return {1, 0};
    case Collective::kBroadcast:
      return {0, 1};
    case Collective::kAllGather:
      return {0, all};
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return {all, 0};
    default:
      return {};
  }
}

// A peer's scalar is its own affair: nobody else can multiply its contribution by it. A codec works on messages.
bool may_use_windows(const Request& request) {
  return !request.facts.v_form && request.facts.count > 0 && !request.reduction.scaled && !request.facts.encodes;
}

// Bytes of the two buffers that plans may reach into.
Blocks bytes_of(const CallFacts& facts, Rank ranks) {
  const size_t block = facts.count * element_bytes(facts.type);
  const Blocks whole = blocks(facts.collective, ranks);
  return {whole.send * block, whole.recv * block};
}

bool is_at(const Mesh& mesh, const WindowSpot& spot, const void* buffer, size_t bytes) {
  if (bytes == 0 || buffer == nullptr) return true;
  const WindowTable::Found found = mesh.windows().find(buffer, bytes);
  return found.complete && (found.reachable ? found.spot : WindowSpot{}) == spot;
}

using Found = WindowTable::Found;

// Whether kernels can do the call. A user's function they cannot call.
bool is_for_kernels(const Request& request, Rank rank, Rank ranks, const Blocks& bytes, const Found& send,
                    const Found& recv) {
  const auto fits = [](size_t wanted, const Found& found) { return wanted == 0 || found.on_device; };
  if (!(send.on_device || recv.on_device) || !fits(bytes.send, send) || !fits(bytes.recv, recv)) return false;
  const bool in_place = is_in_place(request, rank);
  const BuildOptions options{.rank = rank, .ranks = ranks, .root = request.facts.root, .in_place = in_place};
  return request.reduction.user == nullptr && fits_joint(request.facts.collective, options);
}

PeerBuffers peers(const WindowSpot& spot, const WindowTable& windows) {
  if (spot.window == 0) return {};
  return {windows.begins(spot.window), spot.offset};
}

template <typename Look>
Result<Found> await_found(System& system, const Mesh& mesh, Duration patience, const Look& look) {
  Found found = look();
  const Time limit = found.complete ? Time{} : system.clock.now() + patience;
  for (; !found.complete; found = look()) {
    if (mesh.failed()) return mesh.status();
    const uint32_t window = found.spot.window;
    const auto missing = mesh.windows().missing(window);
    const auto gone = std::ranges::find_if(missing, [&](Rank rank) { return mesh.has_left(rank); });
    if (gone != missing.end()) {
      return Status(Code::kInvalidUsage,
                    fmt::format("rank {}: window {}: rank {} has left without it", mesh.rank(), window, *gone));
    }
    const Time now = system.clock.now();
    if (now >= limit) {
      return Status(Code::kTimeout, fmt::format("rank {}: window {}: not registered by ranks {} within {:g} s",
                                                mesh.rank(), window, fmt::join(missing, ", "), seconds(patience)));
    }
    system.threads.sleep_until(now + kLook);
  }
  return found.reachable ? found : Found{};
}

}  // namespace

Result<Found> await_window(System& system, const Mesh& mesh, Duration patience, const void* buffer, size_t bytes) {
  if (bytes == 0 || buffer == nullptr) return Found{};
  return await_found(system, mesh, patience, [&] { return mesh.windows().find(buffer, bytes); });
}

Result<Found> await_window(System& system, const Mesh& mesh, Duration patience, uint32_t window) {
  return await_found(system, mesh, patience, [&] { return mesh.windows().whole(window); });
}

Status find_windows(System& system, const Mesh& mesh, Duration patience, Request& request) {
  CallFacts& facts = request.facts;
  if (!may_use_windows(request)) return {};
  const Blocks bytes = bytes_of(facts, mesh.ranks());
  const Result<Found> send = await_window(system, mesh, patience, request.send, bytes.send);
  if (!send.ok()) return send.status();
  const Result<Found> recv = await_window(system, mesh, patience, request.recv, bytes.recv);
  if (!recv.ok()) return recv.status();
  facts.on_device = is_for_kernels(request, mesh.rank(), mesh.ranks(), bytes, *send, *recv);
  const auto usable = [&](const Found& found) {
    return facts.on_device == found.on_device ? found.spot : WindowSpot{};
  };
  facts.send_spot = usable(*send);
  facts.recv_spot = usable(*recv);
  return {};
}

bool stay_in_windows(const Mesh& mesh, const CallFacts& facts, const void* send, const void* recv) {
  const Blocks bytes = bytes_of(facts, mesh.ranks());
  return is_at(mesh, facts.send_spot, send, bytes.send) && is_at(mesh, facts.recv_spot, recv, bytes.recv);
}

void bind_windows(const Request& request, const WindowTable& windows, Call& call) {
  call.peers_send = peers(request.facts.send_spot, windows);
  call.peers_recv = peers(request.facts.recv_spot, windows);
}

}  // namespace hocket
