// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the model says of algorithms, against the verifier and the simulator.
#include "choose/demand.h"

#include <gtest/gtest.h>

#include "prove/prove.h"

namespace hocket {
namespace {

NetworkModel flat(Picoseconds latency, Femtoseconds wire_byte) {
  NetworkModel model;
  model.levels.resize(1);
  model.levels[0].name = "host";
  model.levels[0].children = kMaxChildren;
  model.levels[0].cost.latency = latency;
  model.levels[0].cost.wire_byte = wire_byte;
  return model;
}

template <typename Use>
void for_known(Rank most, const Use& use) {
  for (const Builder& builder : builders()) {
    for (Rank ranks = 2; ranks <= most; ++ranks) {
      BuildOptions options;
      options.ranks = ranks;
      if (builder.fits(options) && rounds(builder.collective, builder.name, ranks).has_value()) use(builder, options);
    }
  }
}

TEST(Demand, RoundsAreTheVerifiers) {
  for_known(40, [](const Builder& builder, const BuildOptions& options) {
    EXPECT_EQ(*rounds(builder.collective, builder.name, options.ranks), prove(builder, options)->rounds)
        << name(builder.collective) << " " << builder.name << " of " << options.ranks;
  });
}

// The busiest rank is among those that are looked at, so its share is what the verifier finds.
TEST(Demand, SharesAreTheVerifiers) {
  for_known(40, [](const Builder& builder, const BuildOptions& options) {
    const Demand demand = *hocket::demand(builder, options, flat(1, 1));
    const auto share = static_cast<double>(demand.busiest.levels[0].chunks_sent) / demand.chunks;
    EXPECT_NEAR(share, prove(builder, options)->share_sent, 0.02)
        << name(builder.collective) << " " << builder.name << " of " << options.ranks;
  });
}

}  // namespace
}  // namespace hocket
