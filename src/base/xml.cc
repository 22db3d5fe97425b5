// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "base/xml.h"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <type_traits>

namespace hocket {
namespace {

constexpr size_t kShown = 40;  // characters of a wrong value

class Builder {
 public:
  Builder() {
    if (!parser_) throw std::bad_alloc();
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(
        parser_.get(),
        [](void* self, const char* name, const char** attributes) {
          static_cast<Builder*>(self)->begin(name, attributes);
        },
        [](void* self, const char*) { static_cast<Builder*>(self)->end(); });
    XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* text, int length) {
      static_cast<Builder*>(self)->open_.back()->text.append(text, static_cast<size_t>(length));
    });
    XML_SetEntityDeclHandler(parser_.get(),
                             [](void* self, const char*, int, const char*, int, const char*, const char*, const char*,
                                const char*) { static_cast<Builder*>(self)->stop("it declares an entity"); });
  }

  Result<std::unique_ptr<XmlElement>> run(std::string_view text) {
    const auto outcome = XML_Parse(parser_.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
    if (outcome == XML_STATUS_OK) return std::move(root_);
    if (reason_.empty()) reason_ = XML_ErrorString(XML_GetErrorCode(parser_.get()));
    return Status(Code::kInvalidArgument, fmt::format("line {}: {}", line(), reason_));
  }

 private:
  int64_t line() const { return static_cast<int64_t>(XML_GetCurrentLineNumber(parser_.get())); }

  void stop(std::string reason) {
    reason_ = std::move(reason);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  // Expat ends an empty element also when it has been stopped at its beginning.
  void end() {
    if (reason_.empty()) open_.pop_back();
  }

  void begin(const char* name, const char** attributes) {
    if (open_.size() == kMaxXmlDepth) return stop(fmt::format("elements are more than {} deep", kMaxXmlDepth));
    if (++elements_ > kMaxXmlElements) return stop(fmt::format("more than {} elements", kMaxXmlElements));
    auto element = std::make_unique<XmlElement>();
    element->name = name;
    element->line = line();
    for (; *attributes != nullptr; attributes += 2) element->attributes.emplace_back(attributes[0], attributes[1]);
    XmlElement* opened = element.get();
    if (open_.empty()) {
      root_ = std::move(element);
    } else {
      open_.back()->children.push_back(std::move(element));
    }
    open_.push_back(opened);
  }

  std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)> parser_{XML_ParserCreate(nullptr),
                                                                                   XML_ParserFree};
  std::unique_ptr<XmlElement> root_;
  std::vector<XmlElement*> open_;
  size_t elements_ = 0;
  std::string reason_;
};

template <typename Number>
Result<Number> converted(const XmlElement& element, std::string_view attribute, Number low, Number high) {
  const Result<std::string> found = element.text_of(attribute);
  if (!found.ok()) return found.status();
  std::string_view text = *found;
  Number value{};
  std::from_chars_result end{};
  if constexpr (std::is_integral_v<Number>) {
    const bool hexadecimal = text.starts_with("0x");
    if (hexadecimal) text.remove_prefix(2);
    end = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  } else {
    end = std::from_chars(text.data(), text.data() + text.size(), value);
  }
  const bool whole = end.ec == std::errc() && end.ptr == text.data() + text.size();
  if (whole && value >= low && value <= high) return value;
  return element.fault(
      fmt::format("{}=\"{}\" is not a number from {} to {}", attribute, found->substr(0, kShown), low, high));
}

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
  const auto found = std::ranges::find(attributes, attribute, [](const auto& entry) { return entry.first; });
  return found == attributes.end() ? nullptr : &found->second;
}

Status XmlElement::fault(std::string_view reason) const {
  return {Code::kInvalidArgument, fmt::format("line {}: <{}>: {}", line, name.substr(0, kShown), reason)};
}

Result<std::string> XmlElement::text_of(std::string_view attribute) const {
  if (const std::string* found = find(attribute)) return *found;
  return fault(fmt::format("it has no {}", attribute));
}

Result<int64_t> XmlElement::integer(std::string_view attribute, int64_t low, int64_t high) const {
  return converted(*this, attribute, low, high);
}

Result<double> XmlElement::number(std::string_view attribute, double low, double high) const {
  return converted(*this, attribute, low, high);
}

Result<int64_t> XmlElement::integer_or(std::string_view attribute, int64_t value, int64_t low, int64_t high) const {
  return find(attribute) == nullptr ? Result<int64_t>(value) : integer(attribute, low, high);
}

Result<std::unique_ptr<XmlElement>> parse_xml(std::string_view text) {
  if (text.size() > kMaxXmlBytes)
    return Status(Code::kInvalidArgument, fmt::format("more than {} bytes of XML", kMaxXmlBytes));
  return Builder().run(text);
}

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace hocket
