// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A user in C++17: the C header and its C++ face compile and link together.
#include <hocket/hocket.hpp>
#include <vector>

int main() {
  std::vector<hocket::Communicator> ranks = hocket::Communicator::all(1);
  std::vector<double> values = {1.5, 2.5};
  ranks[0].all_reduce(values.data(), values.data(), values.size());
  return values == std::vector<double>{1.5, 2.5} ? 0 : 1;
}
