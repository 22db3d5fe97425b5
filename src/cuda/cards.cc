// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/cards.h"

#include <unistd.h>

#include <utility>

#include "cuda/kernels.h"
#include "cuda/mapping.h"
#include "cuda/memory.h"

namespace hocket::cuda {
namespace {

// 0 where the driver does not know the attribute.
int attribute_or_none(const Driver& driver, int device, int attribute) {
  const Result<int> value = device_attribute(driver, device, attribute);
  return value.ok() ? *value : 0;
}

Status check_device(const Driver& driver, int device) {
  if (attribute_or_none(driver, device, kDmaBufs) == 0) return Status(Code::kCuda, "the driver shares no dma-bufs");
  const bool can_flush = (attribute_or_none(driver, device, kCardWritesFlush) & kFlushByHost) != 0;
  if (can_flush || !hides_card_writes(driver, device)) return {};
  return Status(Code::kCuda, "its kernels do not see what cards write");
}

}  // namespace

Result<DmaBuf> share_with_cards(const Driver& driver, std::span<const std::byte> memory) {
  const Memory kind = recognise(driver, memory.data());
  if (kind.kind != MemoryKind::kDevice) return Status(Code::kCuda, "it is no memory of a device");
  HOCKET_TRY(check_device(driver, kind.device));
  const auto page = static_cast<Address>(::sysconf(_SC_PAGESIZE));
  const Address begin = address_of(memory.data());
  const Address first = begin / page * page;
  const Address end = (begin + memory.size() + page - 1) / page * page;
  int number = -1;
  HOCKET_TRY(checked(driver, driver.memory_get_range_handle(&number, first, end - first, kDmaBuf, 0),
                     "cuMemGetHandleForAddressRange"));
  return DmaBuf{Descriptor(number), begin - first};
}

bool hides_card_writes(const Driver& driver, int device) {
  return attribute_or_none(driver, device, kCardWritesOrdering) < kOrderedForOwner;
}

Status see_card_writes(const Driver& driver) {
  return checked(driver, driver.flush_card_writes(kFlushCurrentContext, kFlushToOwner), "cuFlushGPUDirectRDMAWrites");
}

uint64_t flags_for_cards(const Driver& driver, int device) {
  return attribute_or_none(driver, device, kCardsReachCreated) != 0 ? kForCards : 0;
}

}  // namespace hocket::cuda
