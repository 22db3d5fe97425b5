// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Reads the options of a specification string. Each option is asked for once, with its default and what is allowed;
// the first thing wrong is kept, and finish() tells it. Knows no codec.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hocket {

class Specification {
 public:
  static Result<Specification> parse(std::string_view text);

  const std::string& text() const { return text_; }
  const std::string& name() const { return name_; }

  bool has(std::string_view option) const;

  // The place of the given word in `allowed`; the first is the default.
  size_t word(std::string_view option, std::initializer_list<std::string_view> allowed);
  // Only the listed numbers; the first is the default.
  int64_t one_of(std::string_view option, std::initializer_list<int64_t> allowed);
  int64_t integer(std::string_view option, int64_t otherwise, int64_t least, int64_t most);
  double real(std::string_view option, double otherwise, double least, double most);
  bool flag(std::string_view option) { return word(option, {"0", "1"}) == 1; }

  // For options that are right by themselves and wrong together.
  void fail(const std::string& why);

  // The first problem; options that nobody asked for are one.
  Status finish();
  // Name and all options, the defaults spelled out.
  const std::string& canonical() const { return canonical_; }

 private:
  struct Option {
    std::string name;
    std::string value;
    bool asked = false;
  };

  // What was given for the option, or nothing.
  const std::string* ask(std::string_view option);
  void note(std::string_view option, std::string_view value);
  void refuse(std::string_view option, std::string_view value, const std::string& allowed);

  std::string text_;
  std::string name_;
  std::string canonical_;
  std::vector<Option> options_;
  std::vector<std::string> known_;
  Status problem_;
};

}  // namespace hocket
