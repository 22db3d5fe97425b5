// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The average of a gradient over all ranks, in the background while this rank does something else.
// Runs under mpirun, torchrun, srun, or alone.
#include <cstdio>
#include <hocket/hocket.hpp>
#include <numeric>
#include <vector>

int main() try {
  auto communicator = hocket::Communicator::from_environment();
  const int rank = communicator.rank();

  std::vector<float> gradient(1000000, static_cast<float>(rank));
  hocket::Queue queue;
  communicator.all_reduce(gradient.data(), gradient.data(), gradient.size(), hocketAvg, queue.stream());

  std::vector<double> other(1000);
  std::iota(other.begin(), other.end(), 0.0);
  const double work = std::accumulate(other.begin(), other.end(), 0.0);

  queue.synchronize();
  std::printf("rank %d of %d: average %g, meanwhile %g\n", rank, communicator.size(), gradient.front(), work);
  return 0;
} catch (const hocket::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
