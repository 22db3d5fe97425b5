// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>
#include <vector>

#include "base/xml.h"

namespace hocket::topology {
namespace {

constexpr double kMiddle = 500;
constexpr double kSeatRadius = 360;
constexpr double kOutside = 460;  // NICs
constexpr std::array kColours = {"#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02",
                                 "#a6761d", "#1f78b4", "#b2df8a", "#fb9a99", "#cab2d6", "#6a3d9a"};

struct Point {
  double x = kMiddle;
  double y = kMiddle;
};

Point on_circle(double radius, size_t index, size_t count) {
  const double angle =
      2 * std::numbers::pi * static_cast<double>(index) / static_cast<double>(count) - std::numbers::pi / 2;
  return {kMiddle + radius * std::cos(angle), kMiddle + radius * std::sin(angle)};
}

class Picture {
 public:
  Picture(const Topology& topology, const Rings& rings, const Trees& trees)
      : topology_(topology), rings_(rings), trees_(trees) {
    place();
  }

  std::string run() {
    print("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 2000 1040\" font-family=\"sans-serif\">\n");
    print("<rect width=\"2000\" height=\"1040\" fill=\"white\"/>\n");
    draw_machine();
    for (size_t i = 0; i < std::min(rings_.orders.size(), kColours.size()); ++i) draw_ring(i);
    caption("rings", rings_.orders.size(), rings_.ring_gb_per_s, rings_.bound_gb_per_s);
    print("<g transform=\"translate(1000 0)\">\n");
    draw_machine();
    for (size_t i = 0; i < std::min(trees_.parents.size(), kColours.size()); ++i) draw_tree(i);
    caption("trees", trees_.parents.size(), trees_.tree_gb_per_s, trees_.bound_gb_per_s);
    print("</g>\n</svg>\n");
    return std::move(svg_);
  }

 private:
  template <typename... Arguments>
  void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Arguments>(arguments)...);
  }

  void draw_machine() {
    for (const Link& link : topology_.links()) draw_link(link);
    for (size_t i = 0; i < points_.size(); ++i) draw_vertex(i);
  }

  void caption(std::string_view what, size_t count, double gb_per_s, double bound) {
    print("<text x=\"20\" y=\"1025\" font-size=\"18\">{} {} of {:.4g} GB/s; no schedule has more than {:.4g}</text>\n",
          count, what, gb_per_s, bound);
  }

  void place() {
    points_.resize(topology_.vertices().size());
    seats_ = topology_.seats();
    spread(seats_, kSeatRadius);
    const bool seats_are_cpus = !seats_.empty() && topology_.vertex(seats_[0]).kind == Vertex::Kind::kCpu;
    spread(topology_.all(Vertex::Kind::kNic), kOutside);
    spread(topology_.all(Vertex::Kind::kPci), 250);
    if (!seats_are_cpus) spread(topology_.all(Vertex::Kind::kCpu), 130);
    if (topology_.all(Vertex::Kind::kFabric).size() > 1) spread(topology_.all(Vertex::Kind::kFabric), 60);
  }

  void spread(const std::vector<int32_t>& vertices, double radius) {
    for (size_t i = 0; i < vertices.size(); ++i)
      points_[static_cast<size_t>(vertices[i])] = on_circle(radius, i, vertices.size());
  }

  const Point& at(int32_t vertex) const { return points_[static_cast<size_t>(vertex)]; }

  void draw_link(const Link& link) {
    if (link.from > link.to && topology_.links_from(link.to).size() > 0 && has_reverse(link)) return;
    print(
        "<line x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\" stroke=\"#bbb\" stroke-width=\"{:.1f}\"{}>"
        "<title>{} - {}: {} x{}, {:.4g} GB/s</title></line>\n",
        at(link.from).x, at(link.from).y, at(link.to).x, at(link.to).y,
        std::min(8.0, 0.5 + std::sqrt(link.gb_per_s) / 4), is_fast(link.kind) ? "" : " stroke-dasharray=\"6 4\"",
        xml_escaped(topology_.vertex(link.from).name), xml_escaped(topology_.vertex(link.to).name), name(link.kind),
        link.count, link.gb_per_s);
  }

  bool has_reverse(const Link& link) const {
    return std::ranges::any_of(topology_.links_from(link.to), [&](int32_t number) {
      return topology_.link(number).to == link.from && topology_.link(number).kind == link.kind;
    });
  }

  // A little further in for each of them, so that they do not cover each other.
  Point seat_of(int32_t seat, size_t index) const {
    const double inward = 1 - 0.02 * static_cast<double>(index + 1);
    const Point& point = at(seats_[static_cast<size_t>(seat)]);
    return {kMiddle + (point.x - kMiddle) * inward, kMiddle + (point.y - kMiddle) * inward};
  }

  void draw_ring(size_t index) {
    print("<polygon fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", kColours[index]);
    for (const int32_t seat : rings_.orders[index]) {
      const Point point = seat_of(seat, index);
      print("{:.0f},{:.0f} ", point.x, point.y);
    }
    print("\"/>\n");
  }

  void draw_tree(size_t index) {
    const std::vector<int32_t>& parents = trees_.parents[index];
    for (size_t seat = 0; seat < parents.size(); ++seat) {
      const Point child = seat_of(static_cast<int32_t>(seat), index);
      const Point parent = seat_of(parents[seat], index);
      if (parents[seat] == static_cast<int32_t>(seat)) {
        print("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"6\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", child.x,
              child.y, kColours[index]);
      } else {
        print("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{:.0f},{:.0f} {:.0f},{:.0f}\"/>\n",
              kColours[index], child.x, child.y, parent.x, parent.y);
      }
    }
  }

  void draw_vertex(size_t number) {
    const Vertex& vertex = topology_.vertex(static_cast<int32_t>(number));
    const bool is_seat = std::ranges::find(seats_, static_cast<int32_t>(number)) != seats_.end();
    print("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"{}\" fill=\"{}\" stroke=\"black\"><title>{} {}</title></circle>\n",
          points_[number].x, points_[number].y, is_seat ? 22 : 8, is_seat ? "#ffe9b3" : "#dde6f0",
          xml_escaped(vertex.name), xml_escaped(vertex.model));
    print("<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"{}\" text-anchor=\"middle\">{}</text>\n", points_[number].x,
          points_[number].y + (is_seat ? 4 : -10), is_seat ? 12 : 8, xml_escaped(vertex.name));
  }

  const Topology& topology_;
  const Rings& rings_;
  const Trees& trees_;
  std::vector<int32_t> seats_;
  std::vector<Point> points_;
  std::string svg_;
};

}  // namespace

std::string draw_svg(const Topology& topology, const Rings& rings, const Trees& trees) {
  return Picture(topology, rings, trees).run();
}

}  // namespace hocket::topology
