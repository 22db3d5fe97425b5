// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/cuda/fake_multicast.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "tests/cuda/fake_driver.h"

namespace hocket::fake {

// What is bound, as all processes see it.
struct Binding {
  std::atomic<int> added;  // 1: the device belongs to the object
  std::atomic<int> bound;  // 1: memory of it is
  int process;
  int file;
  size_t bytes;
};

struct MulticastObject {
  std::atomic<unsigned> devices;  // that it is for
  size_t bytes;
  Binding of[kDevices];
};

namespace {

constexpr cuda::DriverResult kNotSupported = 801;
constexpr char kObjectName[] = "fake multicast object";

std::atomic<bool> is_supported{true};
std::atomic<int> launches{0};

bool is_object(int file) {
  char name[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  return ::readlink(link.c_str(), name, sizeof name - 1) > 0 &&
         std::string(name).starts_with(std::string("/memfd:") + kObjectName);
}

// The object that a file is; null: it is none.
std::shared_ptr<MulticastObject> multicast_of(const File& file) {
  if (file == nullptr || !is_object(file->get())) return nullptr;
  void* const mapped = ::mmap(nullptr, sizeof(MulticastObject), PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
  const auto unmap = [](MulticastObject* object) { ::munmap(object, sizeof *object); };
  return {static_cast<MulticastObject*>(mapped), unmap};
}

size_t added(const MulticastObject& object) {
  return static_cast<size_t>(std::ranges::count_if(object.of, [](const Binding& one) { return one.added != 0; }));
}

// The driver waits until all devices have been added. Here that would be a mistake of who calls.
bool is_whole(const MulticastObject& object) { return added(object) == object.devices; }

// Memory that another process has bound, or ours; mapped once, and never unmapped. Null: it is gone.
std::byte* reach(const Binding& binding) {
  static std::mutex mutex;
  static auto& mapped = *new std::map<std::tuple<int, ino_t>, std::byte*>;
  const std::string path = "/proc/" + std::to_string(binding.process) + "/fd/" + std::to_string(binding.file);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat found{};
  if (!file || ::fstat(file.get(), &found) != 0) return nullptr;
  const std::lock_guard lock(mutex);
  std::byte*& place = mapped[{binding.process, found.st_ino}];
  if (place == nullptr) place = map(file.get(), binding.bytes, PROT_READ | PROT_WRITE);
  return place;
}

}  // namespace

size_t multicast_bytes(const File& file) {
  const std::shared_ptr<MulticastObject> object = multicast_of(file);
  return object == nullptr ? 0 : object->bytes;
}

FakeSwitch FakeSwitch::find(const cuda::OpaqueContext& context, const std::byte* address, size_t bytes) {
  FakeSwitch found;
  const auto allocation = allocation_at(reinterpret_cast<uintptr_t>(address));
  const bool is_mapped = allocation && allocation->granted.contains(context.device);
  const std::shared_ptr<MulticastObject> object = is_mapped ? multicast_of(allocation->file) : nullptr;
  if (object == nullptr || !is_whole(*object)) return found;
  const auto offset = static_cast<size_t>(address - allocation->base);
  for (const Binding& binding : object->of) {
    if (binding.added == 0) continue;
    std::byte* const begin = binding.bound != 0 && offset + bytes <= binding.bytes ? reach(binding) : nullptr;
    if (begin == nullptr) return {};
    found.places_.push_back(begin + offset);
  }
  ++launches;
  return found;
}

FAKE_API void forbid_multicast() { is_supported = false; }

FAKE_API int switched_addresses() { return launches; }

cuda::DriverResult multicast_attribute(int* value) {
  *value = is_supported ? 1 : 0;
  return cuda::kSuccess;
}

}  // namespace hocket::fake

using namespace hocket::cuda;  // NOLINT(google-build-using-namespace): it is the driver
using namespace hocket::fake;  // NOLINT(google-build-using-namespace): so are these

extern "C" {

FAKE_API DriverResult cuMulticastGetGranularity(size_t* bytes, const MulticastProperties* of, int /*which*/) {
  FAKE_ENTER(cuMulticastGetGranularity);
  if (!is_supported || of->devices < 2) return kNotSupported;
  *bytes = kMulticastGrain;
  return kSuccess;
}

FAKE_API DriverResult cuMulticastCreate(AllocationHandle* handle, const MulticastProperties* properties) {
  FAKE_ENTER(cuMulticastCreate);
  if (!is_supported) return kNotSupported;
  const bool makes_sense = properties->devices >= 2 && properties->devices <= kDevices && properties->bytes > 0 &&
                           properties->bytes % kMulticastGrain == 0 && properties->handle_types == kFileDescriptor;
  if (!makes_sense) return kInvalidValue;
  const auto file = std::make_shared<hocket::Descriptor>(::memfd_create(kObjectName, MFD_CLOEXEC));
  if (!*file || ::ftruncate(file->get(), sizeof(MulticastObject)) != 0) return kOutOfMemory;
  const std::shared_ptr<MulticastObject> object = multicast_of(file);
  object->bytes = properties->bytes;
  object->devices = properties->devices;
  *handle = keep_created(file, properties->bytes);
  return kSuccess;
}

FAKE_API DriverResult cuMulticastAddDevice(AllocationHandle handle, int device) {
  FAKE_ENTER(cuMulticastAddDevice);
  const std::shared_ptr<MulticastObject> object = multicast_of(file_of(handle));
  if (object == nullptr || device < 0 || device >= kDevices) return kInvalidValue;
  if (!is_supported) return kNotSupported;
  return object->of[device].added.exchange(1) == 0 ? kSuccess : kInvalidValue;
}

FAKE_API DriverResult cuMulticastBindMem(AllocationHandle handle, size_t offset, AllocationHandle memory,
                                         size_t offset_in_memory, size_t bytes, unsigned long long /*flags*/) {
  FAKE_ENTER(cuMulticastBindMem);
  const File bound = file_of(memory);
  const std::shared_ptr<MulticastObject> object = multicast_of(file_of(handle));
  if (object == nullptr || bound == nullptr || !is_whole(*object) || offset != 0 || offset_in_memory != 0 ||
      bytes % kMulticastGrain != 0 || bytes > object->bytes || bytes > bytes_of(memory))
    return kInvalidValue;
  Binding& ours = object->of[device_of(memory)];
  if (ours.added == 0 || ours.bound != 0) return kInvalidValue;
  ours.process = ::getpid();
  ours.file = bound->get();
  ours.bytes = bytes;
  ours.bound = 1;
  return kSuccess;
}

FAKE_API DriverResult cuMulticastUnbind(AllocationHandle handle, int device, size_t offset, size_t bytes) {
  FAKE_ENTER(cuMulticastUnbind);
  const std::shared_ptr<MulticastObject> object = multicast_of(file_of(handle));
  if (object == nullptr || offset != 0 || object->of[device].bytes != bytes) return kInvalidValue;
  return object->of[device].bound.exchange(0) == 1 ? kSuccess : kInvalidValue;
}

}  // extern "C"
