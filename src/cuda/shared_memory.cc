// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/cards.h"
#include "cuda/kernels.h"
#include "cuda/mapping.h"
#include "cuda/multicast.h"
#include "cuda/stream.h"

namespace hocket::cuda {
namespace {

// Numbers of processes of several containers may be equal, so it is drawn.
uint64_t this_process() {
  static const uint64_t number = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return number;
}

// ---- Memory of our own making

// What the driver does not number we do: its numbers are small.
constexpr uint64_t kFirstNumber = uint64_t{1} << 63;

struct Made {
  uint64_t number = 0;
  size_t bytes = 0;
  int device = -1;
  std::shared_ptr<const Kept> kept;
  std::unique_ptr<Mapping> mapping;
};

// By address. Never destroyed: at the end of the process the driver may be gone before it.
struct Heap {
  std::mutex mutex;
  std::map<Address, Made> made;  // guarded by mutex
  uint64_t last = kFirstNumber;  // guarded by mutex
};

Heap& heap() {
  static auto& only = *new Heap;
  return only;
}

// ---- What the driver says of memory and devices

// Of our own making; no bytes: it is not.
Allocation find_made(Address address) {
  const std::lock_guard lock(heap().mutex);
  const auto after = heap().made.upper_bound(address);
  if (after == heap().made.begin()) return {};
  const auto& [begin, made] = *std::prev(after);
  if (address - begin >= made.bytes) return {};
  return {made.number, begin, made.bytes, made.device, nullptr};
}

Result<Allocation> find(const Driver& driver, Address address) {
  if (const Allocation made = find_made(address); made.bytes != 0) return made;
  static constexpr std::array kWanted = {kAttributeBufferId, kAttributeRangeStart, kAttributeRangeSize,
                                         kAttributeDeviceOrdinal, kAttributeContext};
  Allocation found;
  std::array<void*, kWanted.size()> into = {&found.number, &found.begin, &found.bytes, &found.device, &found.context};
  HOCKET_TRY(checked(driver, driver.pointer_get_attributes(kWanted.size(), kWanted.data(), into.data(), address),
                     "cuPointerGetAttributes"));
  if (found.number != 0 && found.bytes != 0) return found;
  return Status(Code::kInvalidArgument, fmt::format("{} is no memory of a device", fmt::ptr(pointer_to(address))));
}

Result<Uuid> uuid_of(const Driver& driver, int device) {
  Uuid uuid = {};
  HOCKET_TRY(checked(driver, driver.device_get_uuid(&uuid, device), "cuDeviceGetUuid"));
  return uuid;
}

// Others, as many as an offer has room for.
Result<std::vector<Uuid>> reached_from(const Driver& driver, int device) {
  int count = 0;
  HOCKET_TRY(checked(driver, driver.device_get_count(&count), "cuDeviceGetCount"));
  std::vector<Uuid> reached;
  for (int other = 0; other < count && reached.size() < MemoryOffer::kMostReached; ++other) {
    int can = 0;
    if (other == device) continue;
    HOCKET_TRY(checked(driver, driver.device_can_access_peer(&can, device, other), "cuDeviceCanAccessPeer"));
    if (can == 0) continue;
    const Result<Uuid> uuid = uuid_of(driver, other);
    HOCKET_TRY(uuid.status());
    reached.push_back(*uuid);
  }
  return reached;
}

Result<int> device_here(const Driver& driver) {
  int device = -1;
  HOCKET_TRY(checked(driver, driver.context_get_device(&device), "cuCtxGetDevice"));
  return device;
}

// ---- Sharing

// Null: the allocation is not of our making.
Result<std::shared_ptr<const Segment>> export_made(const Driver& driver, Address begin) {
  const std::lock_guard lock(heap().mutex);
  const auto found = heap().made.find(begin);
  if (found == heap().made.end()) return std::shared_ptr<const Segment>();
  return export_memory(driver, found->second.kept->handle());
}

// ---- Memory of others

class OwnMemory final : public MappedMemory {
 public:
  explicit OwnMemory(Address address) : address_(address) {}
  std::byte* begin() const override { return pointer_to(address_); }

 private:
  const Address address_;
};

class OpenedMemory final : public MappedMemory {
 public:
  OpenedMemory(const Driver& driver, Context context, Address address)
      : driver_(driver), context_(context), address_(address) {}
  ~OpenedMemory() override {
    const Entered entered(driver_, context_);
    driver_.ipc_close_handle(address_);
  }
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;
  std::byte* begin() const override { return pointer_to(address_); }

 private:
  const Driver& driver_;
  const Context context_;
  const Address address_;
};

class ImportedMemory final : public MappedMemory {
 public:
  explicit ImportedMemory(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
  std::byte* begin() const override { return mapping_->begin(); }

 private:
  const std::unique_ptr<Mapping> mapping_;
};

using Mapped = Result<std::shared_ptr<const MappedMemory>>;

Mapped use_own(const Driver& driver, const MemoryOffer& offer, Context here) {
  const Result<Allocation> found = find(driver, offer.address);
  HOCKET_TRY(found.status());
  const bool is_same =
      found->number == offer.allocation && found->begin == offer.address && found->bytes == offer.bytes;
  if (!is_same) return Status(Code::kInvalidArgument, "the memory was freed meanwhile");
  const Result<int> device = device_here(driver);
  HOCKET_TRY(device.status());
  if (offer.way == MemoryOffer::Way::kDescriptor) {
    HOCKET_TRY(grant(driver, offer.address, offer.bytes, *device));
  } else if (found->device != *device && found->context != here) {
    HOCKET_TRY(let_reach(driver, found->context));
  }
  return std::shared_ptr<const MappedMemory>(std::make_shared<OwnMemory>(offer.address));
}

Mapped open_handle(const Driver& driver, const MemoryOffer& offer, Context here) {
  Address address = 0;
  HOCKET_TRY(checked(driver, driver.ipc_open_handle(&address, offer.handle, kLazyPeerAccess), "cuIpcOpenMemHandle"));
  return std::shared_ptr<const MappedMemory>(std::make_shared<OpenedMemory>(driver, here, address));
}

Mapped import(const Driver& driver, const MemoryOffer& offer, const Descriptor& descriptor) {
  const Result<int> device = device_here(driver);
  HOCKET_TRY(device.status());
  const Result<std::shared_ptr<const Kept>> kept = import_memory(driver, descriptor);
  HOCKET_TRY(kept.status());
  Result<std::unique_ptr<Mapping>> mapping = Mapping::make(driver, (*kept)->handle(), offer.bytes, *device);
  HOCKET_TRY(mapping.status());
  return std::shared_ptr<const MappedMemory>(std::make_shared<ImportedMemory>(std::move(*mapping)));
}

Mapped map_anew(const Driver& driver, const MemoryOffer& offer, const Descriptor& descriptor, Context here) {
  if (offer.process == this_process()) return use_own(driver, offer, here);
  if (offer.way == MemoryOffer::Way::kIpcHandle) return open_handle(driver, offer, here);
  return import(driver, offer, descriptor);
}

}  // namespace

bool MemoryOffer::reaches(const Uuid& other) const {
  return other == device ||
         std::find(reached.begin(), reached.begin() + reached_count, other) != reached.begin() + reached_count;
}

Result<Allocation> find_allocation(const Driver& driver, const void* address) {
  return find(driver, address_of(address));
}

Result<std::string> devices_in_reach(const Driver& driver) {
  const Result<int> device = device_here(driver);
  HOCKET_TRY(device.status());
  const Result<Uuid> own = uuid_of(driver, *device);
  HOCKET_TRY(own.status());
  const Result<std::vector<Uuid>> others = reached_from(driver, *device);
  HOCKET_TRY(others.status());
  std::string text(own->data(), own->size());
  for (const Uuid& other : *others) text.append(other.data(), other.size());
  return text;
}

bool reaches(std::string_view from, std::string_view to) {
  constexpr size_t kUuid = sizeof(Uuid);
  const std::string_view wanted = to.substr(0, kUuid);
  for (size_t at = 0; at + kUuid <= from.size(); at += kUuid) {
    if (from.substr(at, kUuid) == wanted) return true;
  }
  return false;
}

uint64_t allocation_at(const Driver& driver, const void* address) {
  const Result<Allocation> found = find_allocation(driver, address);
  return found.ok() ? found->number : 0;
}

Result<SharedAllocation> share(const Driver& driver, const void* address) {
  const Result<Allocation> found = find_allocation(driver, address);
  HOCKET_TRY(found.status());
  const Result<Uuid> device = uuid_of(driver, found->device);
  HOCKET_TRY(device.status());
  Result<std::shared_ptr<const Segment>> descriptor = export_made(driver, found->begin);
  HOCKET_TRY(descriptor.status());
  SharedAllocation shared;
  MemoryOffer& offer = shared.offer;
  offer.process = this_process();
  offer.address = found->begin;
  offer.bytes = found->bytes;
  offer.allocation = found->number;
  offer.device = *device;
  const Result<std::vector<Uuid>> reached = reached_from(driver, found->device);
  HOCKET_TRY(reached.status());
  std::copy(reached->begin(), reached->end(), offer.reached.begin());
  offer.reached_count = static_cast<uint32_t>(reached->size());
  shared.descriptor = std::move(*descriptor);
  if (shared.descriptor != nullptr) {
    offer.way = MemoryOffer::Way::kDescriptor;
    return shared;
  }
  HOCKET_TRY(checked(driver, driver.ipc_get_handle(&offer.handle, found->begin), "cuIpcGetMemHandle"));
  return shared;
}

Result<std::shared_ptr<const MappedMemory>> MappedMemory::map(const Driver& driver, const MemoryOffer& offer,
                                                              const Descriptor& descriptor) {
  using Key = std::tuple<uint64_t, uint64_t, Context>;
  static auto& known = *new std::map<Key, std::weak_ptr<const MappedMemory>>;
  static std::mutex mutex;
  Context here = nullptr;
  HOCKET_TRY(checked(driver, driver.context_get_current(&here), "cuCtxGetCurrent"));
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<const MappedMemory>& place = known[{offer.process, offer.allocation, here}];
  if (std::shared_ptr<const MappedMemory> mapped = place.lock(); mapped != nullptr) return mapped;
  Mapped mapped = map_anew(driver, offer, descriptor, here);
  if (mapped.ok()) place = *mapped;
  return mapped;
}

Result<void*> allocate_shared(const Driver& driver, size_t bytes, Use use) {
  const Result<int> device = device_here(driver);
  HOCKET_TRY(device.status());
  const AllocationProperties properties{.location = {.device = *device},
                                        .flags = use.cards ? flags_for_cards(driver, *device) : 0};
  size_t grain = 0;
  HOCKET_TRY(checked(driver, driver.memory_get_granularity(&grain, &properties, kGranularity),
                     "cuMemGetAllocationGranularity"));
  if (use.multicast) grain = std::max(grain, multicast_grain(driver, *device));  // powers of two
  if (bytes > SIZE_MAX - grain)
    return Status(Code::kInvalidArgument, fmt::format("size: {} bytes are too many", bytes));
  const size_t whole = (bytes + grain - 1) / grain * grain;
  AllocationHandle handle = 0;
  HOCKET_TRY(checked(driver, driver.memory_create(&handle, whole, &properties, 0), "cuMemCreate"));
  Made made;
  made.bytes = whole;
  made.device = *device;
  made.kept = std::make_shared<Kept>(driver, handle);
  Result<std::unique_ptr<Mapping>> mapping = Mapping::make(driver, handle, whole, *device);
  HOCKET_TRY(mapping.status());
  made.mapping = std::move(*mapping);
  std::byte* const begin = made.mapping->begin();
  const std::lock_guard lock(heap().mutex);
  made.number = ++heap().last;
  heap().made.insert_or_assign(address_of(begin), std::move(made));
  return static_cast<void*>(begin);
}

MadeMemory made_memory(uint64_t number, Address begin) {
  const std::lock_guard lock(heap().mutex);
  const auto found = heap().made.find(begin);
  if (found == heap().made.end() || found->second.number != number) return {};
  return {found->second.kept, found->second.device};
}

bool free_shared(void* address) {
  const std::lock_guard lock(heap().mutex);
  return heap().made.erase(address_of(address)) == 1;
}

}  // namespace hocket::cuda
