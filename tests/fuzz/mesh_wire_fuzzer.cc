// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a peer says in arbitrary bytes: the first byte tells the kind. A window that is accepted lies within its memory,
// and what is read is written again as it came.
#include <cstdint>
#include <cstdlib>

#include "comm/mesh_wire.h"

namespace {

using namespace hocket;  // NOLINT(google-build-using-namespace)

void check_window(std::string_view frame) {
  Reader reader(frame.substr(1));
  WindowOffer offer;
  if (!read_window(reader, &offer)) return;
  if (window_message(offer) != frame) std::abort();
  if (offer.segment_bytes == 0) return;
  if (offer.offset > offer.segment_bytes || offer.bytes > offer.segment_bytes - offer.offset) std::abort();
}

void check_offer(std::string_view frame) {
  Reader reader(frame.substr(1));
  PipeName name;
  uint8_t transport = 0;
  if (read_offer(reader, &name, &transport) && offer_message(name, transport) != frame) std::abort();
}

void check_answer(std::string_view frame) {
  Reader reader(frame.substr(1));
  CallReport report;
  if (read_answer(reader, &report) && answer_message(report) != frame) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view frame(reinterpret_cast<const char*>(data), size);
  if (frame.empty()) return 0;
  switch (static_cast<MessageType>(data[0])) {
    case MessageType::kWindow:
      check_window(frame);
      break;
    case MessageType::kOffer:
      check_offer(frame);
      break;
    case MessageType::kAnswer:
      check_answer(frame);
      break;
    default:
      (void)read_reply(frame);
  }
  return 0;
}
