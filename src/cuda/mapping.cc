// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/mapping.h"

#include <utility>

namespace hocket::cuda {
namespace {

class DescriptorSegment final : public Segment {
 public:
  explicit DescriptorSegment(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  std::span<std::byte> bytes() const override { return {}; }  // none that the host reaches
  Handle handle() const override { return descriptor_.get(); }

 private:
  const Descriptor descriptor_;
};

}  // namespace

Status grant(const Driver& driver, Address address, size_t bytes, int device) {
  const Access access{.location = {.device = device}};
  return checked(driver, driver.memory_set_access(address, bytes, &access, 1), "cuMemSetAccess");
}

Result<std::unique_ptr<Mapping>> Mapping::make(const Driver& driver, AllocationHandle handle, size_t bytes, int device,
                                               size_t alignment) {
  Address address = 0;
  HOCKET_TRY(checked(driver, driver.address_reserve(&address, bytes, alignment, 0, 0), "cuMemAddressReserve"));
  auto mapping = std::unique_ptr<Mapping>(new Mapping(driver, address, bytes));
  HOCKET_TRY(checked(driver, driver.memory_map(address, bytes, 0, handle, 0), "cuMemMap"));
  mapping->is_mapped_ = true;
  HOCKET_TRY(grant(driver, address, bytes, device));
  return mapping;
}

Mapping::~Mapping() {
  if (is_mapped_) driver_.memory_unmap(address_, bytes_);
  driver_.address_free(address_, bytes_);
}

Result<std::shared_ptr<const Segment>> export_memory(const Driver& driver, AllocationHandle handle) {
  int number = -1;
  HOCKET_TRY(
      checked(driver, driver.memory_export(&number, handle, kFileDescriptor, 0), "cuMemExportToShareableHandle"));
  return std::shared_ptr<const Segment>(std::make_shared<DescriptorSegment>(Descriptor(number)));
}

Result<std::shared_ptr<const Kept>> import_memory(const Driver& driver, const Descriptor& descriptor) {
  AllocationHandle handle = 0;
  void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get()));
  HOCKET_TRY(checked(driver, driver.memory_import(&handle, number, kFileDescriptor), "cuMemImportFromShareableHandle"));
  return std::shared_ptr<const Kept>(std::make_shared<Kept>(driver, handle));
}

}  // namespace hocket::cuda
