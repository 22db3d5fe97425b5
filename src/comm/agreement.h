// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How survivors come to name the same culprits. Each rank has a view: who is absent and why the communicator failed.
// Views only grow; ranks pass theirs on over the links that they have and join what they hear. A rank that knows that
// every rank which is not absent holds its view has decided, and says so; who hears of a decision makes it its own.
// Two ranks that count each other among the present cannot decide differently: for a greater view the later one needs
// the other's consent, and gets its decision instead. Who is absent follows from who accuses whom: of two that accuse
// each other the lower stays. Knows no wire, no thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "observe/whereabouts.h"

namespace hocket {

// When ranks know different things of an absent one, the greater counts: a farewell excuses what followed, and makes
// nobody else lost.
enum class Absence : uint8_t { kUnreachable = 1, kSilent, kDied, kLeft };

struct View {
  // What is said of a rank that seems to be gone.
  struct Report {
    Absence how = Absence::kLeft;
    std::string text;               // names the rank, its process and host; empty: the cause does
    std::vector<int32_t> accusers;  // who have lost it, in order
    friend bool operator==(const Report&, const Report&) = default;
  };
  std::map<int32_t, Report> reports;
  Status cause;           // ok: somebody is absent, that is all
  int32_t reporter = -1;  // of the cause

  // These return true when this view has grown.
  bool join(const View& other);
  bool join(int32_t rank, const Report& report);
  bool join(int32_t by, const Status& why);
  bool equals(const View& other) const;
  bool accuses(int32_t accuser, int32_t rank) const;
  // It is accused, and not only by higher ranks which it accuses itself: who hear nothing of each other cannot go on
  // together, and one of them is enough. A view that grows may take this back.
  bool is_lost(int32_t rank) const;
  bool is_absent(int32_t rank) const;
  // Absent ranks that did not take leave.
  std::vector<int32_t> lost() const;
  // There is something to agree on. A rank that seemed to have died may turn out to have taken leave.
  bool blames() const { return !cause.ok() || !lost().empty(); }
};

// What a rank tells others.
struct Opinion {
  View view;
  std::map<int32_t, Whereabouts> holders;  // known to hold this view, and where they stood when they heard of it
  bool decided = false;                    // for all, so not by one whom the others have given up
};

class Agreement {
 public:
  // `look_up` says where this rank stands; it is asked once.
  Agreement(int32_t rank, int32_t ranks, std::function<Whereabouts()> look_up = {})
      : rank_(rank), ranks_(ranks), look_up_(std::move(look_up)) {}

  bool has_begun() const { return !opinion_.holders.empty(); }
  bool decided() const { return decided_; }
  const Opinion& opinion() const { return opinion_; }

  // These return true when there is something new to tell.
  bool note_absent(int32_t rank, Absence how, const std::string& text);
  // Another has given this rank up.
  bool note_dismissal(int32_t by, const std::string& text);
  // Counts only as the first that this rank knows of: what comes later is a consequence.
  bool note_cause(const Status& cause);
  bool hear(int32_t from, const Opinion& theirs);
  // Ends an agreement that takes too long, on what is known here: something that is to blame.
  void decide_alone() { decided_ = opinion_.decided = true; }
  // Ends it by what has ended another communicator: what was heard here does not count, so that it ends alike for all.
  void adopt(View end);

  // Present ranks of which it is not known that they hold this view.
  std::vector<int32_t> awaited() const;
  // This rank is the first of the holders, who looks for those that are awaited.
  bool leads() const { return has_begun() && opinion_.holders.begin()->first == rank_; }

  // Of a decided agreement.
  Status verdict() const;

 private:
  bool note(int32_t rank, const View::Report& report);
  // True when that is news.
  bool join(const View& theirs);
  // While this rank held a greater view than that, others may have decided on it, without `from`.
  bool may_differ(int32_t from, View decision) const;
  // The view has grown, or who holds it is better known.
  void settle();
  std::string reporter() const;

  const int32_t rank_;
  const int32_t ranks_;
  std::function<Whereabouts()> look_up_;  // until it was asked
  Whereabouts own_;
  Opinion opinion_;
  // Ranks that were lost in views that this rank has held, the newest such view of each, and are not any more.
  std::map<int32_t, View> spared_;
  bool decided_ = false;
};

}  // namespace hocket
