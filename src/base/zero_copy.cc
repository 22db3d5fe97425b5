// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "base/zero_copy.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <ctime>

#include <linux/errqueue.h>  // needs timespec

namespace hocket {
namespace {

// Shorter ones are copied sooner than their pages are pinned and the end of it is heard.
constexpr size_t kFrom = 16 << 10;
// If so many in a row were copied, the next ones will be.
constexpr uint32_t kTried = 32;

}  // namespace

bool ZeroCopy::suits(size_t bytes) {
  if (bytes < kFrom || state_ == State::kOff) return false;
  if (under_way_ > 0) look();
  if (state_ == State::kNew) set(State::kOn);
  return state_ == State::kOn;
}

void ZeroCopy::hear(uint32_t sends, bool are_copied) {
  heard_ += sends;
  if (are_copied) copied_ += sends;
  if (heard_ < kTried) return;
  if (copied_ == heard_) set(State::kOff);
  heard_ = copied_ = 0;
}

void ZeroCopy::set(State state) {
  const int on = state == State::kOn ? 1 : 0;
  state_ = ::setsockopt(descriptor_, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0 ? state : State::kOff;
}

// A notice is of one or more sends that follow one another.
void ZeroCopy::look() {
  union {
    cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(sock_extended_err) + sizeof(sockaddr_in6))];
  } control;
  msghdr message{};
  for (;;) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(descriptor_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      sock_extended_err notice{};
      if (header->cmsg_len < CMSG_LEN(sizeof notice)) continue;
      std::memcpy(&notice, CMSG_DATA(header), sizeof notice);
      if (notice.ee_origin != SO_EE_ORIGIN_ZEROCOPY) continue;
      const uint32_t sends = notice.ee_data - notice.ee_info + 1;
      under_way_ -= sends;
      hear(sends, (notice.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0);
    }
  }
}

}  // namespace hocket
