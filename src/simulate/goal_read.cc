// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "simulate/goal.h"

namespace hocket::simulate {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int64_t kMaxNanoseconds = int64_t{1} << 42;
constexpr size_t kMaxRequired = UINT16_MAX;  // by one operation
constexpr Picoseconds kPicosecondsPerNanosecond = 1000;

struct Operation {
  enum class Kind : uint8_t { kSend, kReceive, kCalc };
  Kind kind = Kind::kCalc;
  int64_t amount = 0;  // bytes or nanoseconds
  int32_t peer = 0;
  int32_t tag = 0;
  std::vector<uint32_t> required;
};

// Words and the signs : { } of the text; comments count as space.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  int line() const { return line_; }
  // Empty: the text has ended.
  std::string_view peek() {
    if (!word_.empty()) return word_;
    skip_space();
    size_t length = 0;
    while (length < text_.size() && !is_sign(text_[length]) && !is_space(text_[length])) ++length;
    if (length == 0 && !text_.empty()) length = 1;
    return word_ = text_.substr(0, length);
  }
  std::string_view next() {
    const std::string_view word = peek();
    text_.remove_prefix(word.size());
    word_ = {};
    return word;
  }

 private:
  static bool is_sign(char c) { return c == ':' || c == '{' || c == '}'; }
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  void skip_until(std::string_view end) {
    const size_t found = text_.find(end);
    const size_t length = found == std::string_view::npos ? text_.size() : found + end.size();
    line_ += static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(length), '\n'));
    text_.remove_prefix(length);
  }

  void skip_space() {
    while (!text_.empty()) {
      if (text_.starts_with("//")) {
        skip_until("\n");
      } else if (text_.starts_with("/*")) {
        skip_until("*/");
      } else if (is_space(text_[0])) {
        line_ += text_[0] == '\n' ? 1 : 0;
        text_.remove_prefix(1);
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::string_view word_;
  int line_ = 1;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : words_(text) {}

  Result<Program> read() {
    HOCKET_TRY(expect("num_ranks"));
    int64_t ranks = 0;
    HOCKET_TRY(number("number of ranks", 1, kMaxGoalRanks, &ranks));
    ranks_.resize(static_cast<size_t>(ranks));
    while (!words_.peek().empty()) HOCKET_TRY(read_rank());
    return make();
  }

 private:
  Status fault(std::string_view reason) const {
    return {Code::kInvalidArgument, fmt::format("line {}: {}", words_.line(), reason)};
  }

  Status expect(std::string_view word) {
    const std::string_view found = words_.next();
    return found == word ? Status()
                         : fault(fmt::format("'{}' where '{}' belongs", found.substr(0, kMaxGoalLabel), word));
  }

  Status parse(std::string_view word, std::string_view what, int64_t least, int64_t most, int64_t* value) const {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *value);
    if (error == std::errc() && end == word.data() + word.size() && *value >= least && *value <= most) return {};
    return fault(
        fmt::format("the {} is '{}', not a number from {} to {}", what, word.substr(0, kMaxGoalLabel), least, most));
  }

  Status number(std::string_view what, int64_t least, int64_t most, int64_t* value) {
    return parse(words_.next(), what, least, most, value);
  }

  Status read_rank() {
    HOCKET_TRY(expect("rank"));
    int64_t rank = 0;
    HOCKET_TRY(number("rank", 0, static_cast<int64_t>(ranks_.size()) - 1, &rank));
    operations_ = &ranks_[static_cast<size_t>(rank)];
    labels_.clear();
    if (!operations_->empty()) return fault(fmt::format("rank {} is there twice", rank));
    HOCKET_TRY(expect("{"));
    while (words_.peek() != "}") {
      if (words_.peek().empty()) return fault("the text ends within a rank");
      HOCKET_TRY(read_item());
    }
    words_.next();
    return {};
  }

  static bool is_operation(std::string_view word) { return word == "send" || word == "recv" || word == "calc"; }

  Status read_item() {
    if (is_operation(words_.peek())) return read_operation();
    const std::string_view label = words_.next();
    if (label.size() > kMaxGoalLabel) return fault(fmt::format("a label is longer than {} characters", kMaxGoalLabel));
    if (words_.peek() == ":") {
      words_.next();
      if (!labels_.emplace(label, static_cast<uint32_t>(operations_->size())).second) {
        return fault(fmt::format("label '{}' is there twice", label));
      }
      return read_operation();
    }
    if (words_.peek() == "irequires") return fault("'irequires' cannot be simulated, only 'requires'");
    HOCKET_TRY(expect("requires"));
    return read_requirement(label, words_.next());
  }

  Status read_requirement(std::string_view label, std::string_view required) {
    const auto from = labels_.find(label);
    const auto to = labels_.find(required);
    if (from == labels_.end() || to == labels_.end()) {
      return fault(
          fmt::format("label '{}' is not known", (from == labels_.end() ? label : required).substr(0, kMaxGoalLabel)));
    }
    std::vector<uint32_t>& list = (*operations_)[from->second].required;
    if (list.size() == kMaxRequired) return fault(fmt::format("'{}' requires more than {}", label, kMaxRequired));
    list.push_back(to->second);
    return {};
  }

  Status read_operation() {
    if (++operation_count_ > kMaxGoalOperations)
      return fault(fmt::format("more than {} operations", kMaxGoalOperations));
    Operation operation;
    const std::string_view kind = words_.next();
    if (!is_operation(kind)) return fault(fmt::format("'{}' is no operation", kind.substr(0, kMaxGoalLabel)));
    if (kind == "calc") {
      HOCKET_TRY(number("time", 0, kMaxNanoseconds, &operation.amount));
    } else {
      operation.kind = kind == "send" ? Operation::Kind::kSend : Operation::Kind::kReceive;
      std::string_view bytes = words_.next();
      if (!bytes.ends_with('b')) return fault("a length ends in 'b'");
      bytes.remove_suffix(1);
      HOCKET_TRY(parse(bytes, "length", 0, kMaxBytes, &operation.amount));
      HOCKET_TRY(expect(operation.kind == Operation::Kind::kSend ? "to" : "from"));
      int64_t peer = 0;
      HOCKET_TRY(number("peer", 0, static_cast<int64_t>(ranks_.size()) - 1, &peer));
      operation.peer = static_cast<int32_t>(peer);
    }
    HOCKET_TRY(read_attributes(operation));
    operations_->push_back(std::move(operation));
    return {};
  }

  Status read_attributes(Operation& operation) {
    while (words_.peek() == "tag" || words_.peek() == "cpu" || words_.peek() == "nic") {
      const bool is_tag = words_.next() == "tag";
      int64_t value = 0;
      HOCKET_TRY(number(is_tag ? "tag" : "cpu or nic", 0, is_tag ? INT32_MAX : UINT8_MAX, &value));
      if (is_tag) operation.tag = static_cast<int32_t>(value);
    }
    return {};
  }

  // Every operation is a lane of one step, and every message has a channel of its own.
  Result<Program> make() {
    ProgramMaker maker(static_cast<int32_t>(ranks_.size()));
    std::map<std::tuple<int32_t, int32_t, int32_t, bool>, int32_t> counts;
    std::map<std::tuple<int32_t, int32_t, int32_t, int32_t>, int32_t> channels;
    int32_t self = 0;
    const auto channel = [&](int32_t from, int32_t to, int32_t tag, bool sending) {
      const int32_t index = counts[{from, to, tag, sending}]++;
      return channels.try_emplace({from, to, tag, index}, static_cast<int32_t>(channels.size())).first->second;
    };
    for (const auto& operations : ranks_) {
      maker.begin_rank();
      for (const Operation& operation : operations) {
        maker.begin_lane();
        Program::Step& step = maker.begin_step();
        for (const uint32_t required : operation.required) maker.wait_for(required, 0);
        if (operation.kind == Operation::Kind::kCalc) {
          step.work = operation.amount * kPicosecondsPerNanosecond;
          continue;
        }
        step.full_chunks = operation.amount;
        if (operation.kind == Operation::Kind::kSend) {
          maker.send(operation.peer, channel(self, operation.peer, operation.tag, true));
        } else {
          maker.receive(operation.peer, channel(operation.peer, self, operation.tag, false));
        }
      }
      ++self;
    }
    Result<Program> program = maker.finish();
    if (!program.ok()) return program.status();
    program->name = "goal";
    program->full_bytes = 1;
    program->shape.pipe_depth = INT32_MAX;
    return program;
  }

  Words words_;
  std::vector<std::vector<Operation>> ranks_;
  std::vector<Operation>* operations_ = nullptr;
  std::unordered_map<std::string_view, uint32_t> labels_;
  size_t operation_count_ = 0;
};

}  // namespace

Result<Program> read_goal(std::string_view text) { return Reader(text).read(); }

}  // namespace hocket::simulate
