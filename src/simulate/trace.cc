// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/trace.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace hocket::simulate {
namespace {

constexpr int kLinksProcess = -1;

double microseconds(Picoseconds time) { return static_cast<double>(time) / 1e6; }

}  // namespace

void ChromeTrace::on_slice(const Program::Lane& lane, uint32_t step, Picoseconds begin, Picoseconds end,
                           int64_t bytes) {
  keep({begin, end, bytes, lane.rank, static_cast<uint32_t>(lane.number), step});
}

void ChromeTrace::on_link(LinkId link, Picoseconds begin, Picoseconds end, int64_t bytes) {
  keep({begin, end, bytes, kLinksProcess, link, 0});
}

void ChromeTrace::keep(const Span& span) {
  cut_ = spans_.size() == kMaxTraceSpans;
  if (!cut_) spans_.push_back(span);
}

void ChromeTrace::write(std::ostream& out, const Fabric& fabric) const {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const auto end = std::back_inserter(text);
  std::set<int32_t> ranks;
  std::set<LinkId> links;
  for (const Span& span : spans_) {
    const bool is_link = span.rank == kLinksProcess;
    is_link ? void(links.insert(span.track)) : void(ranks.insert(span.rank));
    const std::string name = is_link ? fmt::format("{} B", span.bytes) : fmt::format("step {}", span.step);
    fmt::format_to(end, R"({{"name":"{}","ph":"X","ts":{:.6f},"dur":{:.6f},"pid":{},"tid":{},"args":{{"bytes":{}}}}},)",
                   name, microseconds(span.begin), microseconds(span.end - span.begin), span.rank, span.track,
                   span.bytes);
    text += '\n';
  }
  for (const int32_t rank : ranks) {
    fmt::format_to(end, R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank {}"}}}},)", rank, rank);
    text += '\n';
  }
  for (const LinkId link : links) {
    fmt::format_to(end, R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}},)", kLinksProcess,
                   link, nlohmann::json(fabric.link_name(link)).dump());
    text += '\n';
  }
  fmt::format_to(end, R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"links"}}}}]}})", kLinksProcess);
  out << text << '\n';
}

}  // namespace hocket::simulate
