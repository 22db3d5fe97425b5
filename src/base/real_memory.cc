// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Shared memory on memfd_create, or on /dev/shm where the kernel lacks it. Objects are never visible by name.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

#include "base/real_system.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace hocket {
namespace {

// Long segments, the windows of ranks, are gone through beside each other, at equal offsets. AMD's processors guess the
// way of a line in the first level cache by a hash of bits 12 to 27 of its address, and where two lines have equal
// ones, such loops take three to eight times as long (docs/decisions/0149). So each begins elsewhere in bits 21 to 27,
// which the hash keeps apart, and like the others in all below.
constexpr size_t kLong = size_t{4} << 20;
constexpr size_t kPeriod = size_t{256} << 20;
constexpr size_t kStep = size_t{2} << 20;

struct Mapping {
  void* start = MAP_FAILED;
  size_t bytes = 0;
};

void* map_shared(void* at, int flags, int descriptor, size_t bytes) {
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, 0);
}

// Fails, too, where the process may not have so many addresses.
Mapping map_long(int descriptor, size_t bytes) {
  static std::atomic<size_t> number = 0;
  const size_t whole = (bytes + kStep - 1) / kStep * kStep;  // in pages, however long they are
  void* const reserved =
      ::mmap(nullptr, whole + kPeriod, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return {};
  const size_t skipped = (number++ * kStep - reinterpret_cast<uintptr_t>(reserved)) % kPeriod;
  std::byte* const start = static_cast<std::byte*>(reserved) + skipped;
  if (skipped > 0) ::munmap(reserved, skipped);
  ::munmap(start + whole, kPeriod - skipped);
  if (map_shared(start, MAP_FIXED, descriptor, bytes) != MAP_FAILED) return {start, whole};
  ::munmap(start, whole);
  return {};
}

class RealSegment : public Segment {
 public:
  RealSegment(Descriptor descriptor, const Mapping& mapping, size_t bytes)
      : descriptor_(std::move(descriptor)), mapping_(mapping), bytes_(bytes) {}
  ~RealSegment() override { ::munmap(mapping_.start, mapping_.bytes); }

  std::span<std::byte> bytes() const override { return {static_cast<std::byte*>(mapping_.start), bytes_}; }
  Handle handle() const override { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
  Mapping mapping_;
  size_t bytes_;
};

Result<std::unique_ptr<Segment>> map_descriptor(Descriptor descriptor, size_t bytes) {
  Mapping mapping;
  if (bytes >= kLong) mapping = map_long(descriptor.get(), bytes);
  if (mapping.start == MAP_FAILED) mapping = {map_shared(nullptr, 0, descriptor.get(), bytes), bytes};
  if (mapping.start == MAP_FAILED)
    return system_failure(fmt::format("cannot map {} bytes of shared memory", bytes), errno);
  return std::unique_ptr<Segment>(std::make_unique<RealSegment>(std::move(descriptor), mapping, bytes));
}

Status creation_failure(size_t bytes, int error) {
  return system_failure(fmt::format("cannot create {} bytes of shared memory", bytes), error);
}

// Beyond this limit the kernel does not answer with an error but with SIGXFSZ, which ends the process.
Status check_file_limit(size_t bytes) {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return {};
  return {Code::kSystem, fmt::format("cannot create {} bytes of shared memory: files are limited to {} (ulimit -f)",
                                     bytes, limit.rlim_cur)};
}

Descriptor make_memfd() {
  Descriptor descriptor(::memfd_create("hocket", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!descriptor && errno == EINVAL) {  // before Linux 6.3
    descriptor = Descriptor(::memfd_create("hocket", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  }
  return descriptor;
}

Result<std::unique_ptr<Segment>> create_on_memfd(Descriptor descriptor, size_t bytes) {
  if (retry_interrupted([&] { return ::ftruncate(descriptor.get(), static_cast<off_t>(bytes)); }) != 0) {
    return creation_failure(bytes, errno);
  }
  // Nobody can take the memory away again: an access never ends in SIGBUS, whatever becomes of the peer.
  if (::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return creation_failure(bytes, errno);
  }
  return map_descriptor(std::move(descriptor), bytes);
}

class RealMemory : public SharedMemory {
 public:
  Result<std::unique_ptr<Segment>> create(size_t bytes) override {
    if (bytes == 0) return Status(Code::kInvalidArgument, "shared memory of 0 bytes cannot be created");
    HOCKET_TRY(check_file_limit(bytes));
    Descriptor descriptor = make_memfd();
    if (descriptor) return create_on_memfd(std::move(descriptor), bytes);
    // EPERM: a container's filter that does not know the call.
    if (errno == ENOSYS || errno == EPERM) return create_segment_in_dev_shm(bytes);
    return creation_failure(bytes, errno);
  }

  Result<std::unique_ptr<Segment>> map(Handle handle, size_t bytes) override {
    Descriptor descriptor(handle);
    struct stat found{};
    if (::fstat(handle, &found) != 0) {
      return system_failure(fmt::format("handle {} is no shared memory", handle), errno);
    }
    if (bytes == 0 || !S_ISREG(found.st_mode) || static_cast<uint64_t>(found.st_size) < bytes) {
      return Status(Code::kInternal, fmt::format("handle {} has {} bytes of shared memory, {} are needed", handle,
                                                 found.st_size, bytes));
    }
    return map_descriptor(std::move(descriptor), bytes);
  }

  int64_t process() override { return ::getpid(); }

  bool read(int64_t process, uint64_t address, std::span<std::byte> into) override {
    const iovec here{into.data(), into.size()};
    const iovec there{reinterpret_cast<void*>(address), into.size()};
    const ssize_t count = ::process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0);
    return count >= 0 && static_cast<size_t>(count) == into.size();
  }
};

// Creates a file that nobody else can have opened, and takes its name away at once.
Descriptor open_unlinked() {
  static std::atomic<unsigned> attempts = 0;
  for (;;) {
    const std::string name = fmt::format("/hocket-{}-{}", ::getpid(), attempts++);
    Descriptor descriptor(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (descriptor) {
      ::shm_unlink(name.c_str());
      return descriptor;
    }
    if (errno != EEXIST && errno != EINTR) return descriptor;
  }
}

}  // namespace

Result<std::unique_ptr<Segment>> create_segment_in_dev_shm(size_t bytes) {
  Descriptor descriptor = open_unlinked();
  if (!descriptor) return creation_failure(bytes, errno);
  int error = 0;
  do {
    // Takes the room now: a full /dev/shm is an error here and not SIGBUS later.
    error = ::posix_fallocate(descriptor.get(), 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error != 0) return creation_failure(bytes, error);
  return map_descriptor(std::move(descriptor), bytes);
}

SharedMemory& real_memory() {
  static RealMemory& memory = *new RealMemory;
  return memory;
}

}  // namespace hocket
