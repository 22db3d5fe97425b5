// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "timetable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "choose/choose.h"

namespace hocket::tool {
namespace {

constexpr double kPicosecondsPerMicrosecond = 1e6;

double quantile(std::vector<double> values, size_t parts) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<ptrdiff_t>(values.size() / parts);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double median(const std::vector<double>& values) { return quantile(values, 2); }

// What a call takes when nobody disturbs it: others make it longer, never shorter.
double typical(const std::vector<double>& values) { return quantile(values, 4); }

// One algorithm in one cell.
struct Row {
  std::string_view algorithm;
  double measured = 0;   // microseconds
  double predicted = 0;  // 0: the model does not know it
};

// Of the library's choice.
struct Chosen {
  std::string algorithm;
  double measured = 0;  // 0: it was not
};

// Means over the cells, and counts over all pairs of rows.
class Score {
 public:
  // The model chooses among what it knows.
  void add_cell(const std::vector<Row>& rows, double least, const Row& liked, const Chosen& tuned,
                const Chosen& untuned) {
    double least_known = HUGE_VAL;
    for (const Row& row : rows) {
      if (row.predicted > 0) least_known = std::min(least_known, row.measured);
    }
    if (liked.predicted > 0) model_.push_back(std::log(liked.measured / least_known));
    if (tuned.measured > 0) tuned_.push_back(std::log(tuned.measured / least));
    if (untuned.measured > 0) untuned_.push_back(std::log(untuned.measured / least));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].predicted > 0) errors_.push_back(std::abs(rows[i].predicted / rows[i].measured - 1));
      for (size_t j = i + 1; j < rows.size(); ++j) add_pair(rows[i], rows[j]);
    }
  }

  std::string text() const {
    std::string text = fmt::format("\nThe model is off by {:.1f} % in the median of {} times.\n", 100 * median(errors_),
                                   errors_.size());
    text +=
        fmt::format("Geometric mean of what it chooses to the fastest that it knows: {:.3f}", geometric_mean(model_));
    if (!untuned_.empty())
      text += fmt::format("; of what is chosen untuned to the fastest: {:.3f}", geometric_mean(untuned_));
    if (!tuned_.empty()) text += fmt::format("; of what is chosen with this tuning: {:.3f}", geometric_mean(tuned_));
    return text + fmt::format(
                      "\nOf {} pairs of algorithms whose times differ by more than a tenth, it ranks {:.1f} % right.\n",
                      pairs_, pairs_ > 0 ? 100.0 * right_ / pairs_ : 0.0);
  }

 private:
  // Times that differ less than measuring does say nothing.
  void add_pair(const Row& a, const Row& b) {
    constexpr double kDiffer = 1.1;
    const double ratio = a.measured / b.measured;
    if (a.predicted <= 0 || b.predicted <= 0 || (ratio < kDiffer && ratio > 1 / kDiffer)) return;
    ++pairs_;
    right_ += (ratio > 1) == (a.predicted > b.predicted) ? 1 : 0;
  }

  static double geometric_mean(const std::vector<double>& logarithms) {
    double sum = 0;
    for (const double value : logarithms) sum += value;
    return logarithms.empty() ? 1 : std::exp(sum / static_cast<double>(logarithms.size()));
  }

  std::vector<double> errors_;
  std::vector<double> model_;
  std::vector<double> tuned_;
  std::vector<double> untuned_;
  int pairs_ = 0;
  int right_ = 0;
};

}  // namespace

void Timetable::add(const Cell& cell, const std::string& algorithm, double microseconds) {
  cells_[cell][algorithm].push_back(microseconds);
}

bool Timetable::add(const std::string& line) {
  std::istringstream fields(line);
  std::string collective;
  std::string algorithm;
  Cell cell{};
  double time = 0;
  char comma = 0;
  if (!std::getline(fields, collective, ',') || !std::getline(fields, algorithm, ',')) return false;
  if (!(fields >> cell.ranks >> comma >> cell.bytes >> comma >> time)) return false;
  if (cell.ranks < 2 || cell.bytes < 0 || !(time > 0)) return false;
  const auto found = std::find_if(builders().begin(), builders().end(), [&](const Builder& builder) {
    return name(builder.collective) == collective && builder.name == algorithm;
  });
  if (found == builders().end()) return false;
  cell.collective = found->collective;
  add(cell, algorithm, time);
  return true;
}

std::vector<Sample> Timetable::samples() const {
  std::vector<Sample> result;
  for (const auto& [cell, times] : cells_) {
    for (const auto& [algorithm, values] : times) {
      result.push_back({cell.collective, algorithm, cell.ranks, medium_, cell.bytes,
                        std::llround(typical(values) * kPicosecondsPerMicrosecond)});
    }
  }
  return result;
}

std::vector<MeasuredChoice> Timetable::best() const {
  std::vector<MeasuredChoice> result;
  for (const auto& [cell, times] : cells_) {
    const MeasuredChoice choice{cell.collective, cell.ranks, medium_, cell.bytes, fastest(times)->first};
    const bool goes_on = !result.empty() && result.back().collective == choice.collective &&
                         result.back().ranks == choice.ranks && result.back().algorithm == choice.algorithm;
    if (goes_on) result.pop_back();
    result.push_back(choice);
  }
  return result;
}

Timetable::Times::const_iterator Timetable::fastest(const Times& times) {
  return std::min_element(times.begin(), times.end(),
                          [](const auto& a, const auto& b) { return typical(a.second) < typical(b.second); });
}

Timetable::Times::const_iterator Timetable::fastest(const Cell& cell, const Times& times,
                                                    const Timetable& judge) const {
  const auto judged = judge.cells_.find(cell);
  if (judged == judge.cells_.end()) return fastest(times);
  const auto named = times.find(fastest(judged->second)->first);
  return named == times.end() ? fastest(times) : named;
}

std::string Timetable::lines() const {
  std::string text;
  for (const auto& [cell, times] : cells_) {
    for (const auto& [algorithm, values] : times) {
      for (const double value : values) {
        text += fmt::format("{},{},{},{},{:.3f}\n", name(cell.collective), algorithm, cell.ranks, cell.bytes, value);
      }
    }
  }
  return text;
}

std::string Timetable::report(const Tuning& tuning, const Timetable& judge) const {
  std::string text =
      fmt::format("{:<15}{:>6}{:>10}  {:<18}{:>12}  {:<18}{:>6}  {:<18}{:>6}  {:<18}{:>6}\n", "collective", "ranks",
                  "bytes", "fastest", "us", "the model's", "ratio", "tuned", "ratio", "untuned", "ratio");
  Score score;
  const std::vector<Sample> seen = samples();
  const std::vector<Picoseconds> predicted = predict_all(tuning, seen, max_message());
  size_t next = 0;
  for (const auto& [cell, times] : cells_) {
    std::vector<Row> rows;
    for (const auto& [algorithm, values] : times) {
      rows.push_back({algorithm, typical(values), static_cast<double>(predicted[next++]) / kPicosecondsPerMicrosecond});
    }
    const auto best = fastest(cell, times, judge);
    const double least = typical(best->second);
    const auto liked = std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return (a.predicted > 0 ? a.predicted : HUGE_VAL) < (b.predicted > 0 ? b.predicted : HUGE_VAL);
    });
    const auto chosen = [&](const Tuning& with) {
      const std::string algorithm = choice(cell, with);
      const auto timed = times.find(algorithm);
      return Chosen{algorithm, timed == times.end() ? 0 : typical(timed->second)};
    };
    const Chosen tuned = chosen(tuning);
    Tuning built_in = built_in_tuning();
    built_in.cores = tuning.cores;
    const Chosen untuned = chosen(built_in);
    score.add_cell(rows, least, *liked, tuned, untuned);
    text += fmt::format("{:<15}{:>6}{:>10}  {:<18}{:>12.2f}  {:<18}{:>6.2f}  {:<18}{:>6.2f}  {:<18}{:>6.2f}\n",
                        name(cell.collective), cell.ranks, cell.bytes, best->first, least, liked->algorithm,
                        liked->measured / least, tuned.algorithm, tuned.measured / least, untuned.algorithm,
                        untuned.measured / least);
  }
  text += score.text();
  if (&judge != this)
    text += fmt::format("The judge's times differ from these by {:.1f} % in the median.\n", 100 * difference(judge));
  return text;
}

double Timetable::difference(const Timetable& other) const {
  std::vector<double> differences;
  for (const auto& [cell, times] : cells_) {
    const auto theirs = other.cells_.find(cell);
    if (theirs == other.cells_.end()) continue;
    for (const auto& [algorithm, values] : times) {
      const auto same = theirs->second.find(algorithm);
      if (same != theirs->second.end()) differences.push_back(std::abs(typical(same->second) / typical(values) - 1));
    }
  }
  return median(differences);
}

std::string Timetable::choice(const Cell& cell, const Tuning& tuning) const {
  Chooser chooser({}, tuning, placement_over(medium_, cell.ranks), max_message());
  Question question;
  question.collective = cell.collective;
  question.ranks = cell.ranks;
  question.bytes = static_cast<size_t>(cell.bytes);
  const Result<Choice> choice = chooser.choose(question);
  return choice.ok() ? std::string(choice->builder->name) : std::string();
}

}  // namespace hocket::tool
