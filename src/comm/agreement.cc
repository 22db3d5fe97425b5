// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace hocket {
namespace {

// Which of two reports about the same rank counts: any order will do that all ranks share.
bool outweighs(const View::Report& one, const View::Report& other) {
  return std::tie(one.how, one.text) > std::tie(other.how, other.text);
}

// Both in order. True when some of theirs are new.
bool unite(std::vector<int32_t>& ours, const std::vector<int32_t>& theirs) {
  if (std::includes(ours.begin(), ours.end(), theirs.begin(), theirs.end())) return false;
  std::vector<int32_t> all;
  std::set_union(ours.begin(), ours.end(), theirs.begin(), theirs.end(), std::back_inserter(all));
  ours = std::move(all);
  return true;
}

}  // namespace

// Who lost a rank stays known when that has taken leave: it is not lost, but whom it accuses and who accuses it remain
// two of whom the lower stays.
bool View::join(int32_t rank, const Report& report) {
  const auto [known, is_new] = reports.emplace(rank, report);
  if (is_new) return true;
  Report& ours = known->second;
  const bool is_worse = outweighs(report, ours);
  if (is_worse) std::tie(ours.how, ours.text) = std::tie(report.how, report.text);
  const bool has_more = unite(ours.accusers, report.accusers);
  return is_worse || has_more;
}

// Of several first causes, the lowest rank's stays.
bool View::join(int32_t by, const Status& why) {
  if (why.ok() || (!cause.ok() && reporter <= by)) return false;
  cause = why;
  reporter = by;
  return true;
}

bool View::join(const View& other) {
  bool grew = join(other.reporter, other.cause);
  for (const auto& [rank, report] : other.reports) grew |= join(rank, report);
  return grew;
}

bool View::equals(const View& other) const {
  return reports == other.reports && reporter == other.reporter && cause.code() == other.cause.code() &&
         cause.message() == other.cause.message();
}

bool View::accuses(int32_t accuser, int32_t rank) const {
  const auto found = reports.find(rank);
  if (found == reports.end()) return false;
  const std::vector<int32_t>& accusers = found->second.accusers;
  return std::binary_search(accusers.begin(), accusers.end(), accuser);
}

bool View::is_lost(int32_t rank) const {
  const auto found = reports.find(rank);
  if (found == reports.end() || found->second.how == Absence::kLeft) return false;
  const std::vector<int32_t>& accusers = found->second.accusers;
  return std::any_of(accusers.begin(), accusers.end(),
                     [&](int32_t accuser) { return accuser <= rank || !accuses(rank, accuser); });
}

bool View::is_absent(int32_t rank) const {
  const auto found = reports.find(rank);
  return found != reports.end() && (found->second.how == Absence::kLeft || is_lost(rank));
}

std::vector<int32_t> View::lost() const {
  std::vector<int32_t> lost;
  for (const auto& [rank, report] : reports) {
    if (is_lost(rank)) lost.push_back(rank);
  }
  return lost;
}

bool Agreement::note_absent(int32_t rank, Absence how, const std::string& text) {
  if (how == Absence::kLeft) return note(rank, {how, text, {}});
  return note(rank, {how, text, {rank_}});
}

bool Agreement::note_dismissal(int32_t by, const std::string& text) {
  return note(rank_, {Absence::kSilent, text, {by}});
}

bool Agreement::note(int32_t rank, const View::Report& report) {
  View news;
  news.join(rank, report);
  if (decided() || !join(news)) return false;
  settle();
  return true;
}

bool Agreement::join(const View& theirs) {
  const View before = opinion_.view;
  if (!opinion_.view.join(theirs)) return false;
  for (const int32_t rank : before.lost()) {
    if (!opinion_.view.is_lost(rank)) spared_.insert_or_assign(rank, before);
  }
  opinion_.holders.clear();
  return true;
}

bool Agreement::may_differ(int32_t from, View decision) const {
  const auto spared = spared_.find(from);
  return spared != spared_.end() && decision.join(spared->second);
}

bool Agreement::note_cause(const Status& cause) {
  if (opinion_.view.blames()) return false;
  View news;
  news.join(rank_, cause);
  join(news);
  settle();
  return true;
}

bool Agreement::hear(int32_t from, const Opinion& theirs) {
  if (decided() || opinion_.view.is_lost(from)) return false;
  if (theirs.decided && theirs.view.blames()) {
    if (may_differ(from, theirs.view))
      return note_absent(from, Absence::kUnreachable, fmt::format("rank {} had decided otherwise", from));
    opinion_ = theirs;
    decided_ = true;
    return true;
  }
  const bool begins = !has_begun();
  const bool grew = join(theirs.view);
  const size_t known = opinion_.holders.size();
  if (opinion_.view.equals(theirs.view)) {
    for (const auto& [rank, where] : theirs.holders) {
      if (!opinion_.view.is_absent(rank)) opinion_.holders.emplace(rank, where);
    }
  }
  settle();
  return begins || grew || opinion_.holders.size() != known;
}

void Agreement::settle() {
  if (const auto look_up = std::exchange(look_up_, nullptr)) own_ = look_up();
  opinion_.holders.emplace(rank_, own_);
  const bool given_up = opinion_.view.is_lost(rank_);
  decided_ = given_up || (opinion_.view.blames() && awaited().empty());
  opinion_.decided = decided_ && !given_up;
}

void Agreement::adopt(View end) {
  opinion_.view = std::move(end);
  opinion_.holders.clear();
  settle();
  decided_ = true;
  opinion_.decided = !opinion_.view.is_lost(rank_);
}

std::vector<int32_t> Agreement::awaited() const {
  std::vector<int32_t> awaited;
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    if (!opinion_.view.is_absent(rank) && !opinion_.holders.contains(rank)) awaited.push_back(rank);
  }
  return awaited;
}

// One for all: of those who agreed, the first of those that had come farthest.
std::string Agreement::reporter() const {
  const auto farthest = std::max_element(
      opinion_.holders.begin(), opinion_.holders.end(),
      [](const auto& one, const auto& other) { return one.second.collectives < other.second.collectives; });
  if (farthest == opinion_.holders.end()) return {};
  const auto& [rank, where] = *farthest;
  const std::string call = where.call.empty() ? "" : fmt::format(", whose newest call was {}", where.call);
  return fmt::format(" (reported by rank {}{})", rank, call);
}

Status Agreement::verdict() const {
  std::vector<std::string> texts;  // ranks of one process share theirs
  for (const int32_t rank : opinion_.view.lost()) {
    const std::string& text = opinion_.view.reports.at(rank).text;
    if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  if (texts.empty()) return opinion_.view.cause;
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return {Code::kRemote, all + reporter()};
}

}  // namespace hocket
