// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The links between ranks as the simulator sees them: which links a message passes, what it costs at its ends, and
// which ranks share cores. Knows no plan and no time of day.
#pragma once

#include <cstdint>
#include <string>

#include "topology/network_model.h"

namespace hocket::simulate {

using LinkId = uint32_t;

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual const LocalCost& local() const = 0;
  // What a message costs but for the links that it passes.
  virtual const MessageCost& cost(int32_t from, int32_t to) const = 0;

  virtual LinkId links() const = 0;
  virtual std::string link_name(LinkId link) const = 0;
  virtual Femtoseconds wire_byte(LinkId link) const = 0;
  // Thousandths of its time that it takes longer where ever more ranks send over it at once; half of that where two do.
  virtual int64_t incast(LinkId link) const = 0;
  // The links of a route, in order.
  virtual int hops(int32_t from, int32_t to) const = 0;
  virtual LinkId link_at(int32_t from, int32_t to, int hop) const = 0;

  // Ranks of a host share its cores; 0 cores: as many as it has ranks.
  virtual int32_t host_of(int32_t rank) const = 0;
  virtual int32_t cores_of(int32_t host) const = 0;
};

// A tree of levels: every child of a level has one link up and one down. Links whose bytes take no time are left out.
class LevelFabric final : public Fabric {
 public:
  LevelFabric(const NetworkModel& model, int32_t ranks);

  const LocalCost& local() const override { return model_.local; }
  const MessageCost& cost(int32_t from, int32_t to) const override {
    return model_.levels[model_.level_of(from, to)].cost;
  }
  LinkId links() const override { return links_; }
  // "host 3 up".
  std::string link_name(LinkId link) const override;
  Femtoseconds wire_byte(LinkId link) const override { return model_.levels[place_of(link).level].cost.wire_byte; }
  // Many meet on the way down to one.
  int64_t incast(LinkId link) const override;
  int hops(int32_t from, int32_t to) const override;
  LinkId link_at(int32_t from, int32_t to, int hop) const override;
  int32_t host_of(int32_t rank) const override { return rank / model_.levels[0].children; }
  int32_t cores_of(int32_t) const override { return model_.cores; }

 private:
  struct Ports {
    LinkId first = 0;   // port i of the level has links first + 2 i (up) and first + 2 i + 1 (down)
    LinkId count = 0;   // links; 0: the level has none
    int32_t width = 1;  // ranks behind a port
  };
  struct Position {
    size_t level = 0;
    LinkId offset = 0;
  };
  Position place_of(LinkId link) const;

  NetworkModel model_;
  std::vector<Ports> ports_;  // by level
  LinkId links_ = 0;
};

}  // namespace hocket::simulate
