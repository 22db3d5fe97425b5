// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace hocket {
namespace {

// Which of two reports about the same rank counts: any order will do that all ranks share.
bool outweighs(const View::Absent& one, const View::Absent& other) {
  return std::tie(one.how, one.text) > std::tie(other.how, other.text);
}

}  // namespace

bool View::join(int32_t rank, const Absent& how) {
  const auto [known, is_new] = absent.emplace(rank, how);
  if (is_new || !outweighs(how, known->second)) return is_new;
  known->second = how;
  return true;
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
  for (const auto& [rank, how] : other.absent) grew |= join(rank, how);
  return grew;
}

bool View::equals(const View& other) const {
  return absent == other.absent && reporter == other.reporter && cause.code() == other.cause.code() &&
         cause.message() == other.cause.message();
}

bool View::is_lost(int32_t rank) const {
  const auto found = absent.find(rank);
  return found != absent.end() && found->second.how != Absence::kLeft;
}

std::vector<int32_t> View::lost() const {
  std::vector<int32_t> lost;
  for (const auto& [rank, how] : absent) {
    if (is_lost(rank)) lost.push_back(rank);
  }
  return lost;
}

bool Agreement::note_absent(int32_t rank, Absence how, const std::string& text) {
  if (decided() || !opinion_.view.join(rank, {how, text})) return false;
  opinion_.holders.clear();
  settle();
  return true;
}

bool Agreement::note_cause(const Status& cause) {
  if (opinion_.view.blames()) return false;
  opinion_.view.join(rank_, cause);
  opinion_.holders.clear();
  settle();
  return true;
}

bool Agreement::hear(int32_t from, const Opinion& theirs) {
  if (decided() || opinion_.view.is_lost(from)) return false;
  if (theirs.decided && theirs.view.blames()) {
    opinion_ = theirs;
    decided_ = true;
    return true;
  }
  const bool begins = !has_begun();
  const bool grew = opinion_.view.join(theirs.view);
  if (grew) opinion_.holders.clear();
  const size_t known = opinion_.holders.size();
  if (opinion_.view.equals(theirs.view)) opinion_.holders.insert(theirs.holders.begin(), theirs.holders.end());
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

std::vector<int32_t> Agreement::awaited() const {
  std::vector<int32_t> awaited;
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    if (!opinion_.view.absent.contains(rank) && !opinion_.holders.contains(rank)) awaited.push_back(rank);
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
    const std::string& text = opinion_.view.absent.at(rank).text;
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  if (texts.empty()) return opinion_.view.cause;
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return {Code::kRemote, all + reporter()};
}

}  // namespace hocket
