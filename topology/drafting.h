// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A topology while a parser makes it.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "topology/read.h"
#include "topology/topology.h"

namespace hocket::topology {

class Draft {
 public:
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  std::vector<std::string> remarks;

  // Blanks become underscores; a name that is taken gets a number.
  int32_t add(Vertex::Kind kind, std::string name, std::string model = {}, int32_t host = 0, std::string bus = {});
  // One direction; what the pair of vertices has of this kind already grows.
  void join(int32_t from, int32_t to, Link::Kind kind, int32_t count, double gb_per_s);
  void join_both(int32_t one, int32_t other, Link::Kind kind, int32_t count, double gb_per_s) {
    join(one, other, kind, count, gb_per_s);
    join(other, one, kind, count, gb_per_s);
  }
  Result<Reading> done();

 private:
  std::unordered_map<std::string, int> taken_;                        // how often a name was asked for
  std::map<std::tuple<int32_t, int32_t, Link::Kind>, size_t> known_;  // links by ends and kind
};

}  // namespace hocket::topology
