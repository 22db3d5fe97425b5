// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a rank fails: whoever notices something says so to the ranks it is linked to, all agree on who is lost and why,
// and then those who drive learn it. The agreement lives on the service thread.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/caught.h"
#include "base/log.h"
#include "comm/mesh_rank.h"

namespace hocket {
namespace {

constexpr Duration kLook = std::chrono::microseconds(200);
constexpr Duration kTellOthers = std::chrono::milliseconds(100);
// After that long, those whose consent is missing are dialled: perhaps nobody who lives is linked to them.
constexpr Duration kReachOut = std::chrono::milliseconds(50);

// A line of the log for each of the page's.
void show_page(LogLevel level, const Status& status, std::string_view page) {
  log(level, status.message());
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    log(level, line);
    page.remove_prefix(std::min(page.size(), line.size() + 1));
  }
}

}  // namespace

// ---- What is noticed

void MeshRank::on_link_lost(int32_t peer, Link::End end, const Status& why) {
  if (has_left(peer) || said_farewell_) return;
  switch (end) {
    case Link::End::kClosed:
      return give_up(peer, Absence::kDied,
                     fmt::format("{} died: its connection closed without a farewell", describe(peer)));
    case Link::End::kSilent:
      return give_up(peer, Absence::kSilent,
                     fmt::format("{} has not responded for {:g} s (HOCKET_TIMEOUT)", describe(peer),
                                 seconds(service_.options().timeout)));
    case Link::End::kMisbehaved:
      return on_misbehaviour(peer, why.message());
  }
}

void MeshRank::on_unreachable(int32_t peer, Refusal refusal, const Status& why) {
  links_.stop_dialling(peer);
  if (refusal == Refusal::kClosed) return note_left(peer);
  if (has_left(peer) || said_farewell_) return;
  const std::string text = fmt::format("rank {} cannot reach {}: {}", rank_, describe(peer), why.message());
  if (refusal != Refusal::kNone) return blame(Status(why.code(), text));
  give_up(peer, Absence::kUnreachable, text);
}

void MeshRank::note_left(int32_t peer) {
  left_[static_cast<size_t>(peer)] = true;
  end_streams(peer);
  poller_->wake();
  if (agreement_.has_begun()) give_up(peer, Absence::kLeft, {});
}

// A peer that lives and never opens its side would be waited for until the operation timeout. That it will not is
// learnt from the parent: the peer itself could only refuse a child that it knows of, and it may never have begun that
// one. Each rank looks for whom it is to be linked to alone: of a group that is not complete some rank misses one of
// those. It decides for all, who are not to wait for the opinion of who has not come. Who is told so, or leaves, looks
// on: what it has to say need not wait for who will never hear it.
void MeshRank::watch_for_doom(Duration pause) {
  std::vector<int32_t> missing = links_.missing();
  std::erase_if(missing, [this](int32_t peer) {
    return has_left(peer) || rank_here(peer) != nullptr || service_.was_closed(id_, peer);
  });
  if (missing.empty() || failed() || said_farewell_) return (void)(doom_ = nullptr);
  View end = doom_();
  if (!end.blames()) {
    const Duration longer = std::min(2 * pause, service_.look());
    return (void)service_.reactor().at(service_.system().clock.now() + pause,
                                       [self = shared_from_this(), longer] { self->watch_for_doom(longer); });
  }
  doom_ = nullptr;
  if (!agreement_.decided()) agreement_.adopt(std::move(end));
  tell();
}

void MeshRank::on_dismissal(int32_t peer) {
  const std::string text = fmt::format("{} has not responded for too long, says rank {}", describe(rank_), peer);
  if (agreement_.note_dismissal(peer, text)) spread();
}

void MeshRank::fail(const Status& status) {
  if (failed() || said_farewell_) return;
  const Status told(status.code(), fmt::format("{} (reported by rank {})", status.message(), rank_));
  if (service_.reactor().in_loop()) return blame(told);
  service_.reactor().post([self = shared_from_this(), told] { self->blame(told); });
  wait_for_failure(patience() + kTellOthers);
  if (record(told, {})) show_failure();
}

void MeshRank::abort(const Status& status) {
  if (failed() || said_farewell_) return;
  service_.reactor().post([self = shared_from_this(), status] { self->conclude(status); });
  wait_for_failure(kTellOthers);
  if (record(status, {})) show_failure();
}

void MeshRank::fail_without_memory() noexcept {
  if (failed() || said_farewell_) return;
  lacks_memory_ = true;
  if (record(out_of_memory(), {})) show_failure();
}

// ---- How all come to know it

void MeshRank::blame(const Status& cause) {
  if (agreement_.note_cause(cause)) spread();
}

void MeshRank::tell_of_memory() {
  if (lacks_memory_.exchange(false)) blame(Status(Code::kSystem, fmt::format("{}: out of memory", describe(rank_))));
}

// This rank does not wait for the others' opinions.
void MeshRank::conclude(const Status& status) {
  blame(status);
  tell();
  if (record(status, {})) show_failure();
}

void MeshRank::give_up(int32_t peer, Absence how, const std::string& text) {
  if (agreement_.note_absent(peer, how, text)) spread();
}

// What is learnt in one turn of the loop is told at once.
void MeshRank::spread() {
  if (std::exchange(spreading_, true)) return;
  service_.reactor().post([self = shared_from_this()] {
    if (self->spreading_ && !self->said_farewell_) self->tell();
  });
}

// Others hear of a verdict before our own driver can see it: it may end the process at once.
void MeshRank::tell() {
  if (!std::exchange(pursued_, true)) {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      if (has_left(rank)) (void)agreement_.note_absent(rank, Absence::kLeft, {});
    }
    pursue(service_.system().clock.now() + patience());
  }
  spreading_ = false;
  const View& view = agreement_.opinion().view;
  for (const auto& [rank, report] : view.reports) {
    if (!view.is_absent(rank)) continue;
    links_.stop_dialling(rank);
    end_streams(rank);
  }
  links_.send_to_all(opinion_message(agreement_.opinion()));
  if (agreement_.decided()) reach_verdict();
}

// How long to wait for the consent of ranks that seem to live. Who is still joining cannot dial those it does not know.
Duration MeshRank::patience() const { return complete_ ? 2 * service_.options().timeout : kTellOthers; }

void MeshRank::pursue(Time limit) {
  const Time now = service_.system().clock.now();
  service_.reactor().at(std::min(now + kReachOut, limit), [self = shared_from_this(), limit] {
    const bool unsettled = self->agreement_.opinion().view.blames() && !self->agreement_.decided();
    self->pursued_ = unsettled && !self->failed() && !self->said_farewell_;
    if (!self->pursued_) return;
    if (self->service_.system().clock.now() < limit) {
      if (self->agreement_.leads()) self->look_for_awaited();
      return self->pursue(limit);
    }
    log_warn("rank {}: not all ranks agreed on what failed", self->rank_);
    self->agreement_.decide_alone();
    self->spread();
  });
}

void MeshRank::look_for_awaited() {
  for (const int32_t peer : agreement_.awaited()) {
    const bool is_known = peers_[static_cast<size_t>(peer)].process != 0;
    if (is_known) links_.open(peer);
  }
}

void MeshRank::reach_verdict() {
  const Status verdict = agreement_.verdict();
  if (!record(verdict, agreement_.opinion().view)) return;
  for (const int32_t peer : agreement_.awaited()) links_.stop_dialling(peer);  // it was decided without them
  show_whereabouts(verdict);
  show_failure();
}

Whereabouts MeshRank::whereabouts() const {
  const std::lock_guard lock(mutex_);
  return look_up_ ? look_up_() : Whereabouts();
}

// One rank shows what all know. Of a rank that died there is no more to say than its name.
void MeshRank::show_whereabouts(const Status& status) const {
  if (!agreement_.leads()) return;
  const LogLevel level = status.code() == Code::kTimeout ? LogLevel::kWarn : LogLevel::kInfo;
  show_page(level, status, wait_report(agreement_.opinion().holders));
}

// ---- What those who drive see

Status MeshRank::status() const {
  if (disowned_) return service_.forked();
  const std::lock_guard lock(mutex_);
  return status_;
}

std::vector<int32_t> MeshRank::lost() const {
  const std::lock_guard lock(mutex_);
  return agreed_.lost();
}

std::vector<int32_t> MeshRank::present() const {
  const std::lock_guard lock(mutex_);
  std::vector<int32_t> present;
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    if (!agreed_.is_absent(rank)) present.push_back(rank);
  }
  return present;
}

std::shared_ptr<const Mesh> MeshRank::watch() {
  ++watchers_;
  return {this, [self = shared_from_this()](const Mesh*) { --self->watchers_; }};
}

bool MeshRank::record(const Status& status, const View& view) {
  const std::lock_guard lock(mutex_);
  if (!status_.ok() || said_farewell_) return false;
  status_ = status;
  agreed_ = view;
  return true;
}

void MeshRank::show_failure() {
  failed_.store(true, std::memory_order_release);
  poller_->wake();
}

void MeshRank::wait_for_failure(Duration patience) {
  const Time limit = service_.system().clock.now() + patience;
  while (!failed() && service_.system().clock.now() < limit) {
    service_.system().threads.sleep_until(service_.system().clock.now() + kLook);
  }
}

}  // namespace hocket
