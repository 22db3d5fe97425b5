// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// XML from outside, as a tree of elements that know their lines. Limited in size and depth; entities are refused, and
// nothing that a file refers to is opened.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace hocket {

inline constexpr size_t kMaxXmlBytes = size_t{64} << 20;
inline constexpr int kMaxXmlDepth = 64;
inline constexpr size_t kMaxXmlElements = size_t{1} << 20;

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  // between the children
  std::vector<std::unique_ptr<XmlElement>> children;
  int64_t line = 0;

  // Null when it is missing.
  const std::string* find(std::string_view attribute) const;
  // What is wrong with this element: "line 12: <net>: ...".
  Status fault(std::string_view reason) const;

  // The failures name element, attribute, value and limits. Integers may be hexadecimal, as 0x1f.
  Result<std::string> text_of(std::string_view attribute) const;
  Result<int64_t> integer(std::string_view attribute, int64_t low, int64_t high) const;
  Result<double> number(std::string_view attribute, double low, double high) const;
  // The value when the attribute is missing.
  Result<int64_t> integer_or(std::string_view attribute, int64_t value, int64_t low, int64_t high) const;
};

// The root element. The failure names the line.
Result<std::unique_ptr<XmlElement>> parse_xml(std::string_view text);

// As an attribute's value or a text has it.
std::string xml_escaped(std::string_view text);

}  // namespace hocket
