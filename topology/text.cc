// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <map>
#include <tuple>

namespace hocket {
namespace {

constexpr std::string_view kTitle = "hocket topology 1";

std::string_view next_word(std::string_view& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) {
    line = {};
    return {};
  }
  const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

template <typename Number>
bool read_number(std::string_view word, Number& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}

class Parser {
 public:
  Result<Topology> run(std::string_view text) {
    if (text.size() > kMaxTopologyText)
      return Status(Code::kInvalidArgument, fmt::format("topology text of more than {} bytes", kMaxTopologyText));
    while (!text.empty() && status_.ok()) {
      const size_t end = std::min(text.find('\n'), text.size());
      read(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (status_.ok() && !has_title_) fail(fmt::format("expected '{}'", kTitle));
    if (status_.ok()) check_repeated();
    if (!status_.ok()) return status_;
    return Topology::make(std::move(vertices_), std::move(links_));
  }

 private:
  // Without a reason: not at all.
  void fail(const std::string& reason) {
    if (status_.ok() && !reason.empty())
      status_ = Status(Code::kInvalidArgument, fmt::format("topology text line {}: {}", number_, reason));
  }

  void read(std::string_view line) {
    ++number_;
    line = line.substr(0, line.find('#'));
    std::string_view rest = line;
    const std::string_view word = next_word(rest);
    if (word.empty()) return;
    if (!has_title_) {
      line.remove_prefix(line.find_first_not_of(" \t\r"));
      has_title_ = line.substr(0, line.find_last_not_of(" \t\r") + 1) == kTitle;
      if (!has_title_) fail(fmt::format("expected '{}'", kTitle));
    } else if (word == "host") {
      if (!read_number(next_word(rest), host_)) fail("expected the number of a host");
      expect_end(rest);
    } else if (word == "link") {
      read_link(rest);
    } else {
      read_vertex(word, rest);
    }
  }

  void expect_end(std::string_view rest) {
    if (const std::string_view more = next_word(rest); !more.empty())
      fail(fmt::format("expected the end of the line, found '{}'", more.substr(0, kMaxVertexName)));
  }

  void read_vertex(std::string_view word, std::string_view rest) {
    const auto kind = vertex_kind(word);
    if (!kind) return fail(fmt::format("expected host, link or a kind of vertex, found '{}'", word.substr(0, 64)));
    Vertex vertex{.kind = *kind, .name = {}, .model = {}, .host = host_, .bus = {}};
    vertex.name = next_word(rest);
    std::string_view after = rest;
    if (const std::string_view model = next_word(after); !model.starts_with('@')) {
      vertex.model = model;
      rest = after;
    }
    after = rest;
    if (const std::string_view bus = next_word(after); bus.starts_with('@')) {
      vertex.bus = bus.substr(1);
      rest = after;
    }
    if (vertex.name.empty()) return fail("expected a name");
    expect_end(rest);
    if (vertices_.size() == kMaxVertices) return fail(fmt::format("more than {} vertices", kMaxVertices));
    if (!numbers_.try_emplace(vertex.name, static_cast<int32_t>(vertices_.size())).second)
      return fail(fmt::format("there is a vertex '{}' already", vertex.name.substr(0, kMaxVertexName)));
    fail(flaw(vertex));
    vertices_.push_back(std::move(vertex));
  }

  int32_t known(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    fail(fmt::format("there is no vertex '{}' above this line", name.substr(0, kMaxVertexName)));
    return 0;
  }

  void read_link(std::string_view rest) {
    Link link;
    link.from = known(next_word(rest));
    const std::string_view direction = next_word(rest);
    if (direction != "-" && direction != ">") fail("expected '-' or '>' between the ends of a link");
    link.to = known(next_word(rest));
    const auto kind = link_kind(next_word(rest));
    if (!kind) fail("expected a kind of link");
    link.kind = kind.value_or(Link::Kind::kPci);
    std::string_view count = next_word(rest);
    if (!count.starts_with('x') || !read_number(count.substr(1), link.count)) fail("expected a number of wires, as x4");
    if (!read_number(next_word(rest), link.gb_per_s) || next_word(rest) != "GB/s") fail("expected a number of GB/s");
    if (!read_number(next_word(rest), link.latency_us) || next_word(rest) != "us") fail("expected a number of us");
    if (std::string_view after = rest; next_word(after) == "measured") {
      link.measured = true;
      rest = after;
    }
    expect_end(rest);
    fail(flaw(link, vertices_));
    if (links_.size() + 2 > kMaxLinks) fail(fmt::format("more than {} links", kMaxLinks));
    add(link);
    if (direction == ">") return;
    std::swap(link.from, link.to);
    add(link);
  }

  void add(const Link& link) {
    links_.push_back(link);
    lines_.push_back(number_);
  }

  void check_repeated() {
    const std::optional<size_t> repeated = find_repeated(links_);
    if (!repeated) return;
    number_ = lines_[*repeated];
    fail(twice(links_[*repeated], vertices_));
  }

  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<int> lines_;  // of the links
  std::map<std::string, int32_t, std::less<>> numbers_;
  int32_t host_ = 0;
  int number_ = 0;
  bool has_title_ = false;
  Status status_;
};

bool is_reverse(const Link& one, const Link& other) {
  return one.from == other.to && one.to == other.from && one.kind == other.kind && one.count == other.count &&
         one.gb_per_s == other.gb_per_s && one.latency_us == other.latency_us && one.measured == other.measured;
}

}  // namespace

std::string to_text(const Topology& topology) {
  std::string text(kTitle);
  text += '\n';
  const auto end = std::back_inserter(text);
  int32_t host = 0;
  for (const Vertex& vertex : topology.vertices()) {
    if (vertex.host != host) fmt::format_to(end, "host {}\n", host = vertex.host);
    fmt::format_to(end, "{} {}{}{}{}{}\n", name(vertex.kind), vertex.name, vertex.model.empty() ? "" : " ",
                   vertex.model, vertex.bus.empty() ? "" : " @", vertex.bus);
  }
  const auto links = topology.links();
  for (size_t i = 0; i < links.size(); ++i) {
    const Link& link = links[i];
    const bool both = i + 1 < links.size() && is_reverse(link, links[i + 1]);
    fmt::format_to(end, "link {} {} {} {} x{} {} GB/s {} us{}\n", topology.vertex(link.from).name, both ? '-' : '>',
                   topology.vertex(link.to).name, name(link.kind), link.count, link.gb_per_s, link.latency_us,
                   link.measured ? " measured" : "");
    i += both ? 1 : 0;
  }
  return text;
}

Result<Topology> parse_topology(std::string_view text) { return Parser().run(text); }

}  // namespace hocket
