// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/multicast_launches.h"

#include <utility>

#include "kernels/cuda/multicast.h"

namespace hocket {
namespace {

using Launch = HeldKernels::Launch;
using Addresses = std::span<std::byte* const>;

uintptr_t number_of(const std::byte* address) { return reinterpret_cast<uintptr_t>(address); }

// A combine whose addresses of all ranks are one.
struct Switched {
  std::byte* source = nullptr;
  std::byte* destination = nullptr;
  bool from_all = false;
  bool to_all = false;
};

// The address of the place that these are, by rank; null: they are not one place, or no address stands for it.
std::byte* address_of_all(const SwitchedWindow& window, Addresses addresses) {
  if (window.all == nullptr || addresses.size() != window.begins.size()) return nullptr;
  const uintptr_t offset = number_of(addresses[0]) - number_of(window.begins[0]);
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    if (number_of(addresses[rank]) - number_of(window.begins[rank]) != offset) return nullptr;
  }
  return window.all + offset;
}

// As a plan has them: a copy does not name what it copies to itself.
std::vector<std::byte*> with_own(Addresses destinations, std::byte* own, size_t rank, size_t ranks) {
  std::vector<std::byte*> all(destinations.begin(), destinations.end());
  if (all.size() + 1 == ranks) all.insert(all.begin() + static_cast<std::ptrdiff_t>(rank), own);
  return all;
}

Switched find_switched(const SwitchedWindow& send, const SwitchedWindow& recv, size_t rank,
                       const device::Batch& batch) {
  const device::Task& task = batch.task[0];
  const Addresses sources(batch.address + task.address, task.sources);
  const Addresses destinations(batch.address + task.address + task.sources, task.destinations);
  Switched found;
  found.from_all = sources.size() > 1;
  found.to_all = destinations.size() > 1;
  found.source = found.from_all ? address_of_all(send, sources) : sources[0];
  found.destination = destinations[0];
  if (found.to_all)
    found.destination = address_of_all(recv, with_own(destinations, sources[0], rank, recv.begins.size()));
  return found;
}

bool can_switch(const Launch& launch, const Switched& found) {
  const device::Batch& batch = launch.batch;
  if (!(found.from_all || found.to_all) || found.source == nullptr || found.destination == nullptr) return false;
  const bool fits = (number_of(found.source) ^ number_of(found.destination)) % device::kPackBytes == 0 &&
                    number_of(found.source) % element_bytes(launch.type) == 0;
  if (!fits || batch.scaled) return false;
  const bool divides = batch.divide_last != 0;
  return found.from_all ? device::multicast_combines(launch.type, batch.op, divides) : !divides;
}

// What lies `from` elements behind the beginning of a task.
void add_rest(const Launch& whole, uint64_t from, uint64_t count, Launch& rest) {
  if (count == 0) return;
  device::Batch& batch = rest.batch;
  device::Task task = whole.batch.task[0];
  const uint32_t first = std::exchange(task.address, batch.addresses);
  task.count = count;
  for (uint32_t i = 0; i < uint32_t{task.sources} + task.destinations; ++i) {
    batch.address[batch.addresses++] = whole.batch.address[first + i] + from * element_bytes(whole.type);
  }
  batch.task[batch.tasks++] = task;
}

Launch without_tasks(const Launch& of) {
  Launch launch = of;
  launch.batch.tasks = launch.batch.addresses = 0;
  return launch;
}

Launch switched_launch(const Launch& whole, const Switched& found, uint64_t head, uint64_t count) {
  Launch launch = without_tasks(whole);
  device::Batch& batch = launch.batch;
  batch.from_all = found.from_all;
  batch.to_all = found.to_all;
  batch.task[batch.tasks++] = {.count = count, .sources = 1, .destinations = 1};
  for (std::byte* const address : {found.source, found.destination}) {
    batch.address[batch.addresses++] = address + head * element_bytes(whole.type);
  }
  return launch;
}

}  // namespace

void use_switch(const SwitchedWindow& send, const SwitchedWindow& recv, size_t rank, std::vector<Launch>& launches) {
  if (launches.size() != 1 || launches[0].batch.tasks != 1) return;
  const Launch whole = launches[0];
  const Switched found = find_switched(send, recv, rank, whole.batch);
  if (!can_switch(whole, found)) return;
  const size_t element = element_bytes(whole.type);
  const uint64_t pack = device::kPackBytes / element;
  const uint64_t count = whole.batch.task[0].count;
  const uint64_t head =
      (device::kPackBytes - number_of(found.source) % device::kPackBytes) % device::kPackBytes / element;
  if (count < head + pack) return;
  const uint64_t packed = (count - head) / pack * pack;
  Launch rest = without_tasks(whole);
  add_rest(whole, 0, head, rest);
  add_rest(whole, head + packed, count - head - packed, rest);
  launches = {switched_launch(whole, found, head, packed), rest};
}

}  // namespace hocket
