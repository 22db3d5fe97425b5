// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who asks for a communicator that is not known yet waits a while: a peer may open it any moment. When too many
// strangers wait, the oldest goes: a peer of ours needs milliseconds and comes again.
#include "comm/service_acceptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "comm/handshake_crypto.h"
#include "comm/service.h"

namespace hocket {
namespace {

constexpr int kAcceptedPerTurn = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);  // when the process is out of descriptors
constexpr size_t kNonceBytes = 16;

// Somebody speaks our language and is not let in: a user's mistake rather than a port scanner. Links to ranks that open
// their side late are none.
bool is_worrying(const AcceptingHandshake& handshake) {
  const Refusal refusal = handshake.refusal();
  if (refusal == Refusal::kUnknown) return handshake.hello().purpose == Purpose::kCheckIn;
  return refusal == Refusal::kVersion || refusal == Refusal::kWrongKey || refusal == Refusal::kSealing;
}

}  // namespace

Acceptor::~Acceptor() {
  forget_strangers();
  for (const auto& listener : listeners_) service_.reactor().unwatch(listener->handle());
}

void Acceptor::forget_strangers() {
  for (const Stranger& stranger : strangers_) {
    service_.reactor().unwatch(stranger.handshake->socket().handle());
    service_.reactor().cancel(stranger.deadline);
  }
  strangers_.clear();
}

void Acceptor::start_again() {
  forget_strangers();
  for (const auto& listener : listeners_) accept_all(listener.get());
}

Result<Address> Acceptor::listen(const Address& address) {
  Result<std::unique_ptr<Listener>> listener = service_.system().network.listen(address);
  if (!listener.ok()) return listener.status();
  const Address bound = (*listener)->address();
  service_.reactor().post([this, shared = std::shared_ptr<Listener>(std::move(*listener))] { watch(shared); });
  return bound;
}

void Acceptor::watch(std::shared_ptr<Listener> listener) {
  Listener* raw = listener.get();
  listeners_.push_back(std::move(listener));
  const Status status = service_.reactor().watch(raw->handle(), [this, raw] { accept_all(raw); });
  if (!status.ok()) log_error("cannot watch {}: {}", raw->address(), status.message());
}

void Acceptor::accept_all(Listener* listener) {
  for (int accepted = 0; accepted < kAcceptedPerTurn; ++accepted) {
    Result<std::unique_ptr<Socket>> socket = listener->accept();
    if (!socket.ok()) {
      if (!std::exchange(starved_, true)) log_warn("cannot accept connections: {}", socket.status().message());
      service_.reactor().at(service_.system().clock.now() + kAcceptPause, [this, listener] { accept_all(listener); });
      return;
    }
    starved_ = false;
    if (*socket == nullptr) return;
    receive(std::move(*socket), service_.seals(listener->address()));
  }
  service_.reactor().post([this, listener] { accept_all(listener); });
}

void Acceptor::receive(std::unique_ptr<Socket> socket, bool seals) {
  if (strangers_.size() >= service_.options().max_strangers) {
    dismiss(strangers_.begin(), "too many connections wait to prove who they are");
  }
  Result<std::string> nonce = random_bytes(kNonceBytes);
  if (!nonce.ok()) return;
  const Handle handle = socket->handle();
  auto handshake = std::make_unique<AcceptingHandshake>(
      std::move(socket), service_.options().library_version,
      [this, seals](const Hello& hello) { return judge(hello, seals); },
      [this](const Hello& hello) { return decide(hello); }, std::move(*nonce));
  const auto stranger = strangers_.insert(strangers_.end(), Stranger{std::move(handshake)});
  expect(stranger, service_.options().handshake_timeout);
  const Status status = service_.reactor().watch(handle, [this, stranger] { advance(stranger); });
  if (!status.ok()) return dismiss(stranger, status.message());
  advance(stranger);
}

void Acceptor::advance(Strangers::iterator stranger) {
  AcceptingHandshake& handshake = *stranger->handshake;
  const Handshake::State state = handshake.advance();
  if (state == Handshake::State::kPending) return hurry(stranger);
  if (state == Handshake::State::kFailed) return dismiss(stranger, handshake.status().message());
  const Hello hello = handshake.hello();
  service_.reactor().unwatch(handshake.socket().handle());
  service_.reactor().cancel(stranger->deadline);
  std::unique_ptr<Socket> socket = handshake.take_socket();
  strangers_.erase(stranger);
  if (const std::shared_ptr<Door> door = service_.find_door(hello.id, hello.to)) door->enter(hello, std::move(socket));
}

void Acceptor::expect(Strangers::iterator stranger, Duration patience) {
  service_.reactor().cancel(stranger->deadline);
  stranger->deadline =
      service_.reactor().at(service_.system().clock.now() + patience, [this, stranger] { expire(stranger); });
}

// A peer whose communicator is not known yet must hear so in time: it would take us for one that is stopped.
void Acceptor::hurry(Strangers::iterator stranger) {
  const AcceptingHandshake& handshake = *stranger->handshake;
  if (!handshake.waits_for_judgement() || handshake.hello().purpose == Purpose::kCheckIn) return;
  if (std::exchange(stranger->hurries, true)) return;
  expect(stranger, std::min(service_.options().handshake_timeout, service_.options().timeout / 2));
}

void Acceptor::expire(Strangers::iterator stranger) {
  stranger->handshake->expire();
  dismiss(stranger, stranger->handshake->status().message());
}

void Acceptor::dismiss(Strangers::iterator stranger, const std::string& why) {
  Socket& socket = stranger->handshake->socket();
  const std::string text = fmt::format("closed a connection from {}: {}", socket.peer_name(), why);
  // Once of each kind, so that nobody can fill our log.
  if (is_worrying(*stranger->handshake) && warned_.insert(stranger->handshake->refusal()).second) {
    log_warn("{}", text);
  } else {
    log_info("{}", text);
  }
  service_.reactor().unwatch(socket.handle());
  service_.reactor().cancel(stranger->deadline);
  strangers_.erase(stranger);
}

void Acceptor::look_again() {
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) advance(stranger++);
}

std::optional<Admission> Acceptor::judge(const Hello& hello, bool seals) {
  if (hello.sealed != seals) return Admission{Refusal::kSealing, {}};
  if (const std::shared_ptr<Door> door = service_.find_door(hello.id, hello.to)) return Admission{{}, door->key()};
  if (service_.was_closed(hello.id, hello.to)) return Admission{Refusal::kClosed, {}};
  if (hello.purpose == Purpose::kCheckIn) ++unknown_guests_;
  return {};
}

Refusal Acceptor::decide(const Hello& hello) const {
  const std::shared_ptr<Door> door = service_.find_door(hello.id, hello.to);
  return door == nullptr ? Refusal::kClosed : door->decide(hello);
}

}  // namespace hocket
