// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/text.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <optional>

#include "plan/builders.h"
#include "plan/check.h"

namespace hocket {
namespace {

constexpr std::string_view kNothing = "nothing";

std::string_view name_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::kSend:
      return "send";
    case Buffer::kRecv:
      return "recv";
    case Buffer::kScratch:
      return "scratch";
  }
  return "unknown";
}

void print(std::string& out, const Region& region) {
  const auto end = std::back_inserter(out);
  fmt::format_to(end, "{}", region.first);
  if (region.block != 1) fmt::format_to(end, "..{}", int64_t{region.first} + region.block - 1);
  if (region.count != 1 || region.stride != 0) fmt::format_to(end, " x {} by {}", region.count, region.stride);
}

void print(std::string& out, const Place& place, std::string_view message_word) {
  if (place.first) out += "first ";
  if (place.kind == Place::Kind::kMessage) {
    fmt::format_to(std::back_inserter(out), "{} {}", message_word, place.peer);
    return;
  }
  out += name_of(place.buffer);
  out += '[';
  for (size_t i = 0; i < place.regions.size(); ++i) {
    if (i > 0) out += ", ";
    print(out, place.regions[i]);
  }
  out += ']';
  if (place.kind == Place::Kind::kWindow) fmt::format_to(std::back_inserter(out), " at {}", place.peer);
}

void print(std::string& out, const std::vector<Place>& places, std::string_view separator,
           std::string_view message_word) {
  if (places.empty()) out += kNothing;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i > 0) out += separator;
    print(out, places[i], message_word);
  }
}

void print(std::string& out, const Step& step) {
  print(out, step.destinations, ", ", "to");
  out += " <- ";
  print(out, step.sources, " + ", "from");
  if (!step.after.empty()) out += " after";
  for (const After& after : step.after) fmt::format_to(std::back_inserter(out), " {}.{}", after.lane, after.step);
  if (step.last) out += " last";
}

// Reads one line from left to right. The first failure stays.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text.substr(0, text.find('#'))), number_(number) { skip_blanks(); }

  bool empty() const { return text_.empty(); }
  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }

  // Takes `word` if it is next.
  bool accept(std::string_view word) {
    if (failed() || !text_.starts_with(word)) return false;
    const bool continues = is_letter(word.back()) && text_.size() > word.size() && is_letter(text_[word.size()]);
    if (continues) return false;
    text_.remove_prefix(word.size());
    skip_blanks();
    return true;
  }

  void expect(std::string_view word) {
    if (!accept(word)) fail(fmt::format("expected '{}'", word));
  }

  void expect_end() {
    if (!failed() && !empty()) fail("expected the end of the line");
  }

  int32_t number(std::string_view what, bool may_be_negative = false) {
    int32_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || (value < 0 && !may_be_negative)) {
      fail(fmt::format("expected {}", what));
      return 0;
    }
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    skip_blanks();
    return value;
  }

  bool at_digit() const { return !failed() && !text_.empty() && text_.front() >= '0' && text_.front() <= '9'; }

  std::string_view word() {
    size_t length = 0;
    while (length < text_.size() && is_letter(text_[length])) ++length;
    const std::string_view result = text_.substr(0, length);
    if (result.empty()) fail("expected a name");
    text_.remove_prefix(length);
    skip_blanks();
    return result;
  }

  void fail(std::string_view reason) {
    if (failed()) return;
    constexpr size_t kShown = 24;
    const std::string found = text_.empty() ? "the end of the line" : fmt::format("'{}'", text_.substr(0, kShown));
    status_ = Status(Code::kInvalidArgument, fmt::format("plan text line {}: {}, found {}", number_, reason, found));
  }

 private:
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\t' || text_.front() == '\r'))
      text_.remove_prefix(1);
  }

  std::string_view text_;
  int number_;
  Status status_;
};

Region parse_region(Line& line) {
  Region region;
  region.first = line.number("a chunk number");
  if (line.accept("..")) {
    const int64_t block = int64_t{line.number("a chunk number")} - region.first + 1;
    if (block < 1 || block > kMaxChunks) line.fail("expected a block of chunks that ends after its first");
    region.block = static_cast<int32_t>(block);
  }
  if (line.accept("x")) {
    region.count = line.number("a number of blocks");
    line.expect("by");
    region.stride = line.number("a stride", true);
  }
  return region;
}

std::optional<Buffer> parse_buffer(Line& line) {
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv, Buffer::kScratch}) {
    if (line.accept(name_of(buffer))) return buffer;
  }
  return std::nullopt;
}

void parse_regions(Line& line, Place& place) {
  line.expect("[");
  if (line.accept("]")) return;
  do {
    if (place.regions.size() == kMaxRegions) line.fail(fmt::format("expected no more than {} regions", kMaxRegions));
    place.regions.push_back(parse_region(line));
  } while (!line.failed() && line.accept(","));
  line.expect("]");
}

Place parse_place(Line& line, std::string_view message_word) {
  Place place;
  place.first = line.accept("first");
  if (line.accept(message_word)) {
    place.kind = Place::Kind::kMessage;
    place.peer = line.number("a rank");
    return place;
  }
  const auto buffer = parse_buffer(line);
  if (!buffer) {
    line.fail(fmt::format("expected send[], recv[], scratch[] or '{}'", message_word));
    return place;
  }
  place.buffer = *buffer;
  parse_regions(line, place);
  if (line.accept("at")) {
    place.kind = Place::Kind::kWindow;
    place.peer = line.number("a rank");
  }
  return place;
}

std::vector<Place> parse_places(Line& line, std::string_view separator, std::string_view message_word, size_t limit) {
  std::vector<Place> places;
  if (line.accept(kNothing)) return places;
  do {
    if (places.size() == limit) line.fail(fmt::format("expected no more than {} places", limit));
    places.push_back(parse_place(line, message_word));
  } while (!line.failed() && line.accept(separator));
  return places;
}

Step parse_step(Line& line) {
  Step step;
  step.destinations = parse_places(line, ",", "to", kMaxDestinations);
  line.expect("<-");
  step.sources = parse_places(line, "+", "from", kMaxSources);
  if (line.accept("after")) {
    do {
      After after;
      after.lane = line.number("a lane");
      line.expect(".");
      after.step = line.number("a step");
      step.after.push_back(after);
    } while (line.at_digit());
  }
  step.last = line.accept("last");
  line.expect_end();
  return step;
}

std::optional<Collective> collective_of(std::string_view word) {
  for (int value = 0; value <= static_cast<int>(Collective::kSendRecv); ++value) {
    if (name(static_cast<Collective>(value)) == word) return static_cast<Collective>(value);
  }
  return std::nullopt;
}

// Line by line: five lines of head, then lanes and steps.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Result<Plan> run() {
    using Part = void (Parser::*)(Line&);
    for (const Part part : {&Parser::version, &Parser::title, &Parser::ranks, &Parser::chunks, &Parser::depth}) {
      Line line = next();
      (this->*part)(line);
      line.expect_end();
      if (line.failed()) return line.status();
    }
    for (Line line = next(); !line.empty(); line = next()) {
      body(line);
      if (line.failed()) return line.status();
    }
    HOCKET_TRY(check(plan_));
    return std::move(plan_);
  }

 private:
  // The next line that is not empty; an empty one at the end of the text.
  Line next() {
    while (!rest_.empty()) {
      const size_t length = rest_.find('\n');
      Line line(rest_.substr(0, length), ++number_);
      rest_.remove_prefix(length == std::string_view::npos ? rest_.size() : length + 1);
      if (!line.empty()) return line;
    }
    return Line({}, number_ + 1);
  }

  void version(Line& line) {
    line.expect("hocket");
    line.expect("plan");
    line.expect("1");
  }

  void title(Line& line) {
    const auto collective = collective_of(line.word());
    if (!collective) line.fail("expected the name of a collective before this");
    plan_.collective = collective.value_or(Collective::kAllReduce);
    plan_.algorithm = line.word();
  }

  void ranks(Line& line) {
    line.expect("rank");
    plan_.rank = line.number("a rank");
    line.expect("of");
    plan_.ranks = line.number("a number of ranks");
    line.expect(",");
    line.expect("root");
    plan_.root = line.number("a rank");
  }

  void chunks(Line& line) {
    line.expect("chunks");
    line.expect("send");
    plan_.send_chunks = line.number("a number of chunks");
    line.expect(",");
    line.expect("recv");
    plan_.recv_chunks = line.number("a number of chunks");
    line.expect(",");
    line.expect("scratch");
    plan_.scratch_chunks = line.number("a number of chunks");
    line.expect(",");
    line.expect("message");
    plan_.message_chunks = line.number("a number of chunks");
  }

  void depth(Line& line) {
    line.expect("depth");
    plan_.depth = line.number("a number of messages");
  }

  void body(Line& line) {
    if (line.accept("lane")) {
      const int32_t lane = line.number("a lane");
      if (static_cast<size_t>(lane) != plan_.lanes.size())
        line.fail(fmt::format("expected lane {}", plan_.lanes.size()));
      if (plan_.lanes.size() == kMaxLanes) line.fail(fmt::format("expected no more than {} lanes", kMaxLanes));
      plan_.lanes.emplace_back();
      line.expect_end();
    } else if (plan_.lanes.empty()) {
      line.fail("expected 'lane 0'");
    } else {
      plan_.lanes.back().steps.push_back(parse_step(line));
    }
  }

  std::string_view rest_;
  int number_ = 0;
  Plan plan_;
};

}  // namespace

std::string to_text(const Place& place) {
  std::string out;
  print(out, place, "to");
  return out;
}

std::string to_text(const Step& step) {
  std::string out;
  print(out, step);
  return out;
}

std::string to_text(const Plan& plan) {
  std::string out = fmt::format("hocket plan 1\n{} {}\nrank {} of {}, root {}\n", name(plan.collective), plan.algorithm,
                                plan.rank, plan.ranks, plan.root);
  out += fmt::format("chunks send {}, recv {}, scratch {}, message {}\ndepth {}\n", plan.send_chunks, plan.recv_chunks,
                     plan.scratch_chunks, plan.message_chunks, plan.depth);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    out += fmt::format("lane {}\n", lane);
    for (const Step& step : plan.lanes[lane].steps) {
      out += "  ";
      print(out, step);
      out += '\n';
    }
  }
  return out;
}

Result<Plan> parse_plan(std::string_view text) {
  if (text.size() > kMaxPlanText) {
    return Status(Code::kInvalidArgument,
                  fmt::format("plan text of {} bytes exceeds the limit of {}", text.size(), kMaxPlanText));
  }
  return Parser(text).run();
}

}  // namespace hocket
