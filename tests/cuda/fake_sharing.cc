// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How the stand-in's processes share device memory, and how cards beside its devices do: each allocation is a file
// without a name, which another process opens where it lies in the owner's table of files (IPC handles) or is given
// (file descriptors).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tests/cuda/fake_state.h"

using namespace hocket::cuda;  // NOLINT(google-build-using-namespace): it is the driver
using namespace hocket::fake;  // NOLINT(google-build-using-namespace): so are these

namespace {

using Origin = Allocation::Origin;

constexpr DriverResult kAlreadyMapped = 208;
constexpr DriverResult kNotSupported = 801;
constexpr size_t kGrain = 65536;
constexpr char kFileName[] = "fake device memory ";

// What an IPC handle says.
struct Owned {
  int process = 0;
  int file = 0;
  int device = 0;
  size_t bytes = 0;
  uint64_t number = 0;
};
static_assert(sizeof(Owned) <= sizeof(IpcHandle));

struct Created {
  File file;
  size_t bytes = 0;
  int device = 0;
  bool for_cards = false;
};

struct Sharing {
  std::mutex mutex;
  std::map<AllocationHandle, Created> created;         // guarded by mutex
  AllocationHandle last = 0;                           // guarded by mutex
  std::map<Address, std::pair<int, uint64_t>> opened;  // process and allocation; guarded by mutex
  std::atomic<bool> peers_reach_each_other{true};
  std::atomic<bool> shares_dma_bufs{true};
  std::atomic<bool> hides_card_writes{false};
  std::atomic<bool> flushes_card_writes{true};
};

Sharing& sharing() {
  static auto& instance = *new Sharing;
  return instance;
}

// The device of a file that somebody gave us; -1: it is none of ours.
int device_of(int file) {
  char name[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const std::string wanted = std::string("/memfd:") + kFileName;
  if (::readlink(link.c_str(), name, sizeof name - 1) < 0 || !std::string(name).starts_with(wanted)) return -1;
  return name[wanted.size()] - '0';
}

AllocationHandle keep(Created created) {
  const std::lock_guard lock(sharing().mutex);
  sharing().created[++sharing().last] = std::move(created);
  return sharing().last;
}

bool find(AllocationHandle handle, Created* created) {
  const std::lock_guard lock(sharing().mutex);
  const auto found = sharing().created.find(handle);
  if (found != sharing().created.end()) *created = found->second;
  return found != sharing().created.end();
}

}  // namespace

namespace hocket::fake {

File device_file(size_t bytes, int device) {
  auto file = std::make_shared<Descriptor>(::memfd_create((kFileName + std::to_string(device)).c_str(), MFD_CLOEXEC));
  if (!*file || ::ftruncate(file->get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  return file;
}

File file_of(AllocationHandle handle) {
  Created created;
  return find(handle, &created) ? created.file : nullptr;
}

size_t bytes_of(AllocationHandle handle) {
  Created created;
  return find(handle, &created) ? created.bytes : 0;
}

int device_of(AllocationHandle handle) {
  Created created;
  return find(handle, &created) ? created.device : 0;
}

AllocationHandle keep_created(File file, size_t bytes) { return keep({std::move(file), bytes, 0, false}); }

DriverResult card_attribute(int attribute, int* value) {
  const std::map<int, int> values = {{kCardsReachCreated, 1},
                                     {kDmaBufs, sharing().shares_dma_bufs ? 1 : 0},
                                     {kCardWritesFlush, sharing().flushes_card_writes ? kFlushByHost : 0},
                                     {kCardWritesOrdering, sharing().hides_card_writes ? 0 : kOrderedForOwner}};
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}

FAKE_API void hide_card_writes(bool hides, bool can_flush) {
  sharing().hides_card_writes = hides;
  sharing().flushes_card_writes = can_flush;
}

FAKE_API void forbid_dma_bufs() { sharing().shares_dma_bufs = false; }

FAKE_API void forbid_peer_access() { sharing().peers_reach_each_other = false; }

}  // namespace hocket::fake

extern "C" {

// ---- Devices

FAKE_API DriverResult cuDeviceGetCount(int* count) {
  FAKE_ENTER(cuDeviceGetCount);
  *count = kDevices;
  return kSuccess;
}

FAKE_API DriverResult cuDeviceGetUuid_v2(Uuid* uuid, int device) {
  FAKE_ENTER(cuDeviceGetUuid);
  if (device < 0 || device >= kDevices) return kInvalidValue;
  uuid->fill('f');
  uuid->back() = static_cast<char>('0' + device);
  return kSuccess;
}

FAKE_API DriverResult cuDeviceCanAccessPeer(int* can, int device, int peer) {
  FAKE_ENTER(cuDeviceCanAccessPeer);
  *can = device != peer && sharing().peers_reach_each_other ? 1 : 0;
  return kSuccess;
}

// ---- IPC handles

FAKE_API DriverResult cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  FAKE_ENTER(cuIpcGetMemHandle);
  const auto found = allocation_at(address);
  if (!found || found->type != kMemoryTypeDevice || found->origin != Origin::kAllocated) return kInvalidValue;
  const Owned owned{::getpid(), found->file->get(), found->device, found->size, found->number};
  std::memcpy(handle->bytes.data(), &owned, sizeof owned);
  return kSuccess;
}

FAKE_API DriverResult cuIpcOpenMemHandle_v2(Address* address, IpcHandle handle, unsigned /*flags*/) {
  FAKE_ENTER(cuIpcOpenMemHandle);
  Owned owned;
  std::memcpy(&owned, handle.bytes.data(), sizeof owned);
  if (context_here() == nullptr || owned.process == ::getpid()) return kInvalidContext;
  const std::lock_guard lock(sharing().mutex);
  for (const auto& [at, from] : sharing().opened) {
    if (from == std::pair(owned.process, owned.number)) return kAlreadyMapped;
  }
  const std::string path = "/proc/" + std::to_string(owned.process) + "/fd/" + std::to_string(owned.file);
  const auto file = std::make_shared<hocket::Descriptor>(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!*file || device_of(file->get()) != owned.device) return kInvalidValue;
  std::byte* const base = map(file->get(), owned.bytes, PROT_NONE);
  std::byte* const alias = map(file->get(), owned.bytes, PROT_READ | PROT_WRITE);
  if (base == nullptr || alias == nullptr) return kOutOfMemory;
  note({.base = base,
        .alias = alias,
        .size = owned.bytes,
        .type = kMemoryTypeDevice,
        .device = owned.device,
        .file = file,
        .origin = Origin::kOpened,
        .granted = {context_here()->device}});
  *address = reinterpret_cast<uintptr_t>(base);
  sharing().opened[*address] = {owned.process, owned.number};
  return kSuccess;
}

FAKE_API DriverResult cuIpcCloseMemHandle(Address address) {
  FAKE_ENTER(cuIpcCloseMemHandle);
  const auto gone = take_out(address, Origin::kOpened);
  if (context_here() == nullptr || !gone) return kInvalidValue;
  ::munmap(gone->base, gone->size);
  const std::lock_guard lock(sharing().mutex);
  sharing().opened.erase(address);
  return kSuccess;
}

// ---- File descriptors

FAKE_API DriverResult cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties* /*of*/, int /*which*/) {
  FAKE_ENTER(cuMemGetAllocationGranularity);
  *bytes = kGrain;
  return kSuccess;
}

FAKE_API DriverResult cuMemCreate(AllocationHandle* handle, size_t bytes, const AllocationProperties* properties,
                                  unsigned long long /*flags*/) {
  FAKE_ENTER(cuMemCreate);
  if (bytes == 0 || bytes % kGrain != 0 || properties->handle_types != kFileDescriptor) return kInvalidValue;
  const File file = device_file(bytes, properties->location.device);
  if (file == nullptr) return kOutOfMemory;
  *handle = keep({file, bytes, properties->location.device, properties->flags == kForCards});
  return kSuccess;
}

FAKE_API DriverResult cuMemRelease(AllocationHandle handle) {
  FAKE_ENTER(cuMemRelease);
  const std::lock_guard lock(sharing().mutex);
  return sharing().created.erase(handle) == 1 ? kSuccess : kInvalidValue;
}

FAKE_API DriverResult cuMemExportToShareableHandle(void* into, AllocationHandle handle, int type,
                                                   unsigned long long /*flags*/) {
  FAKE_ENTER(cuMemExportToShareableHandle);
  Created created;
  if (type != kFileDescriptor || !find(handle, &created)) return kInvalidValue;
  const int copy = ::fcntl(created.file->get(), F_DUPFD_CLOEXEC, 0);
  std::memcpy(into, &copy, sizeof copy);
  return copy < 0 ? kOutOfMemory : kSuccess;
}

FAKE_API DriverResult cuMemImportFromShareableHandle(AllocationHandle* handle, void* number, int /*type*/) {
  FAKE_ENTER(cuMemImportFromShareableHandle);
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(number));
  struct stat found{};
  const int device = device_of(given);
  const auto file = std::make_shared<hocket::Descriptor>(::fcntl(given, F_DUPFD_CLOEXEC, 0));
  if (const size_t bytes = multicast_bytes(file); bytes > 0) return *handle = keep_created(file, bytes), kSuccess;
  if (device < 0 || ::fstat(given, &found) != 0) return kInvalidValue;
  *handle = keep({file, static_cast<size_t>(found.st_size), device, false});
  return kSuccess;
}

FAKE_API DriverResult cuMemAddressReserve(Address* address, size_t bytes, size_t /*alignment*/, Address /*wish*/,
                                          unsigned long long /*flags*/) {
  FAKE_ENTER(cuMemAddressReserve);
  if (bytes == 0 || bytes % kGrain != 0) return kInvalidValue;
  *address = reinterpret_cast<uintptr_t>(map(-1, bytes, PROT_NONE));
  return *address == 0 ? kOutOfMemory : kSuccess;
}

FAKE_API DriverResult cuMemAddressFree(Address address, size_t bytes) {
  FAKE_ENTER(cuMemAddressFree);
  return ::munmap(reinterpret_cast<void*>(address), bytes) == 0 ? kSuccess : kInvalidValue;
}

FAKE_API DriverResult cuMemMap(Address address, size_t bytes, size_t offset, AllocationHandle handle,
                               unsigned long long /*flags*/) {
  FAKE_ENTER(cuMemMap);
  Created created;
  if (!find(handle, &created) || offset != 0 || bytes > created.bytes) return kInvalidValue;
  const bool is_object = multicast_bytes(created.file) > 0;
  std::byte* const alias =
      is_object ? map(-1, bytes, PROT_NONE) : map(created.file->get(), bytes, PROT_READ | PROT_WRITE);
  if (alias == nullptr) return kOutOfMemory;
  note({.base = reinterpret_cast<std::byte*>(address),
        .alias = alias,
        .size = bytes,
        .type = kMemoryTypeDevice,
        .device = created.device,
        .file = created.file,
        .for_cards = created.for_cards,
        .origin = Origin::kMapped});
  return kSuccess;
}

FAKE_API DriverResult cuMemUnmap(Address address, size_t /*bytes*/) {
  FAKE_ENTER(cuMemUnmap);
  return take_out(address, Origin::kMapped) ? kSuccess : kInvalidValue;
}

FAKE_API DriverResult cuMemSetAccess(Address address, size_t /*bytes*/, const Access* access, size_t count) {
  FAKE_ENTER(cuMemSetAccess);
  for (size_t i = 0; i < count; ++i) {
    if (!grant(address, access[i].location.device)) return kInvalidValue;
  }
  return kSuccess;
}

// ---- Cards

// A file of its own for each range, whose position is where the range begins.
FAKE_API DriverResult cuMemGetHandleForAddressRange(void* into, Address address, size_t bytes, int type,
                                                    unsigned long long /*flags*/) {
  FAKE_ENTER(cuMemGetHandleForAddressRange);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto found = allocation_at(address);
  if (type != kDmaBuf || address % page != 0 || bytes % page != 0 || !found) return kInvalidValue;
  const size_t offset = address - reinterpret_cast<uintptr_t>(found->base);
  if (bytes > (found->size + page - 1) / page * page - offset) return kInvalidValue;
  if (found->type != kMemoryTypeDevice || found->file == nullptr || !found->for_cards) return kNotSupported;
  const std::string path = "/proc/self/fd/" + std::to_string(found->file->get());
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0 || ::lseek(file, static_cast<off_t>(offset), SEEK_SET) < 0) return kOutOfMemory;
  std::memcpy(into, &file, sizeof file);
  return kSuccess;
}

FAKE_API DriverResult cuFlushGPUDirectRDMAWrites(int target, int scope) {
  FAKE_ENTER(cuFlushGPUDirectRDMAWrites);
  if (context_here() == nullptr) return kInvalidContext;
  const bool can = sharing().flushes_card_writes && target == kFlushCurrentContext && scope == kFlushToOwner;
  return can ? kSuccess : kInvalidValue;
}

}  // extern "C"
