// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Stream sockets that never block: TCP and unix.
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/real_system.h"
#include "base/zero_copy.h"

namespace hocket {
namespace {

constexpr size_t kPartsPerSend = 64;
constexpr size_t kMaxHandles = 64;           // sent at once, or arrived and not taken
constexpr size_t kMaxHandlesMessage = 4096;  // bytes that surely travel as one piece
constexpr unsigned kReceptionsPerRequest = 16;

union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(kMaxHandles * sizeof(int))];
};

class RealSocket : public Socket {
 public:
  RealSocket(Descriptor descriptor, std::string peer_name, bool passes_handles)
      : descriptor_(std::move(descriptor)),
        peer_name_(std::move(peer_name)),
        passes_handles_(passes_handles),
        zero_copy_(descriptor_.get()) {}

  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override {
    iovec vectors[kPartsPerSend];
    size_t count = 0;
    for (std::span<const std::byte> part : parts.first(std::min(parts.size(), kPartsPerSend))) {
      if (!part.empty()) vectors[count++] = {const_cast<std::byte*>(part.data()), part.size()};
    }
    if (count == 0) return size_t{0};
    if (count == 1) {  // a short message, for which the kernel has less to look at
      return sent(
          retry_interrupted([&] { return ::send(handle(), vectors->iov_base, vectors->iov_len, MSG_NOSIGNAL); }));
    }
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = count;
    return send_message(message);
  }

  Result<size_t> send_kept(std::span<const std::byte> bytes) override {
    if (!passes_handles_ && zero_copy_.suits(bytes.size())) {
      const ssize_t count =
          retry_interrupted([&] { return ::send(handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_ZEROCOPY); });
      if (count > 0) zero_copy_.taken();
      if (count >= 0 || errno != ENOBUFS) return sent(count);
      zero_copy_.refused();
    }
    return send({&bytes, 1});
  }

  Result<size_t> receive(std::span<std::byte> into) override {
    if (into.empty()) return size_t{0};
    if (passes_handles_) return receive_with_handles(into);
    const ssize_t count = retry_interrupted([&] { return ::recv(handle(), into.data(), into.size(), 0); });
    if (count > 0 && receptions_++ % kReceptionsPerRequest == 0) acknowledge_later();
    return received(count);
  }

  Result<size_t> send_handles(std::span<const std::byte> bytes, std::span<const Handle> handles) override {
    if (!passes_handles_) return Status(Code::kInvalidUsage, fmt::format("{} cannot be sent handles", peer_name_));
    if (bytes.empty() || bytes.size() > kMaxHandlesMessage || handles.size() > kMaxHandles) {
      return Status(Code::kInvalidArgument, fmt::format("cannot send {} handles with {} bytes: at most {} with 1 to {}",
                                                        handles.size(), bytes.size(), kMaxHandles, kMaxHandlesMessage));
    }
    iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
    ControlBuffer control{};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    if (!handles.empty()) {
      message.msg_control = &control;
      message.msg_controllen = CMSG_SPACE(handles.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(handles.size_bytes());
      std::memcpy(CMSG_DATA(header), handles.data(), handles.size_bytes());
    }
    return send_message(message);
  }

  std::vector<Handle> take_handles() override {
    std::vector<Handle> taken;
    for (Descriptor& each : arrived_) taken.push_back(each.release());
    arrived_.clear();
    return taken;
  }

  Handle handle() const override { return descriptor_.get(); }
  std::string peer_name() const override { return peer_name_; }

  size_t under_way() const override {
    int bytes = 0;  // of a unix socket: those that nobody has read, which cannot be lost
    return !passes_handles_ && ::ioctl(handle(), SIOCOUTQ, &bytes) == 0 ? static_cast<size_t>(bytes) : 0;
  }

 private:
  Result<size_t> send_message(const msghdr& message) {
    return sent(retry_interrupted([&] { return ::sendmsg(handle(), &message, MSG_NOSIGNAL); }));
  }

  Result<size_t> receive_with_handles(std::span<std::byte> into) {
    iovec vector{into.data(), into.size()};
    ControlBuffer control;
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    const ssize_t count = retry_interrupted([&] { return ::recvmsg(handle(), &message, MSG_CMSG_CLOEXEC); });
    if (count > 0) HOCKET_TRY(keep_handles(message));
    return received(count);
  }

  // What the kernel's calls return.
  Result<size_t> sent(ssize_t count) {
    if (count >= 0) {
      connected_.store(true, std::memory_order_relaxed);
      return static_cast<size_t>(count);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    return fail(errno);
  }

  Result<size_t> received(ssize_t count) {
    if (count > 0) {
      connected_.store(true, std::memory_order_relaxed);
      return static_cast<size_t>(count);
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return size_t{0};
    if (count < 0) return fail(errno);
    return keep(Status(Code::kRemote, fmt::format("{} closed the connection", peer_name_)));
  }

  // Many connections carry data one way most of the time, where the kernel acknowledges each short message at once:
  // nothing goes back that could tell as well, and that takes a sixth of the message's time. It waits when asked, until
  // it has waited in vain.
  void acknowledge_later() {
    const int at_once = 0;
    ::setsockopt(handle(), IPPROTO_TCP, TCP_QUICKACK, &at_once, sizeof at_once);
  }

  Status fail(int error) {
    const char* what = connected_ ? "lost the connection to {}" : "cannot connect to {}";
    return keep(system_failure(fmt::format(fmt::runtime(what), peer_name_), error));
  }

  // The kernel tells the cause once, in whichever direction, and then only that the connection is gone: the first
  // failure counts.
  Status keep(const Status& failure) {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = failure;
    return failure_;
  }

  Status keep_handles(msghdr& message) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      int numbers[kMaxHandles];
      size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::memcpy(numbers, CMSG_DATA(header), count * sizeof(int));
      for (size_t i = 0; i < count; ++i) arrived_.emplace_back(numbers[i]);
    }
    if ((message.msg_flags & MSG_CTRUNC) == 0 && arrived_.size() <= kMaxHandles) return {};
    const char* why = arrived_.size() > kMaxHandles ? "nobody took them" : "this process may have too many open files";
    return keep(Status(Code::kSystem, fmt::format("handles from {} were lost: {}", peer_name_, why)));
  }

  Descriptor descriptor_;
  std::string peer_name_;
  const bool passes_handles_;
  std::atomic<bool> connected_ = false;
  unsigned receptions_ = 0;
  ZeroCopy zero_copy_;
  std::mutex mutex_;
  Status failure_;  // guarded by mutex_
  std::vector<Descriptor> arrived_;
};

}  // namespace

std::unique_ptr<Socket> make_real_socket(Descriptor descriptor, std::string peer_name, bool passes_handles) {
  return std::make_unique<RealSocket>(std::move(descriptor), std::move(peer_name), passes_handles);
}

}  // namespace hocket
