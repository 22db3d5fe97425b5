// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// all_reduce_perf with a fault: `faulty_perf wrong ...` spoils one element of every result on rank 0; `faulty_perf dies
// ...` kills rank 1 in its tenth call.
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "perf/program.h"

namespace {

using hocket::perf::Call;
using hocket::perf::kAllReduce;
using hocket::perf::Role;

hocketResult_t spoil(const Role& role, const Call& call) {
  const hocketResult_t result = kAllReduce.run(role, call);
  if (role.rank == 0 && role.shape.count > 0) {
    auto* bytes = static_cast<std::byte*>(call.receive);
    bytes[(role.shape.count - 1) * role.element_bytes] ^= std::byte{1};
  }
  return result;
}

hocketResult_t die(const Role& role, const Call& call) {
  static int calls = 0;
  if (role.rank == 1 && ++calls == 10) raise(SIGKILL);
  return kAllReduce.run(role, call);
}

}  // namespace

int main(int argc, char** argv) {
  hocket::perf::Collective faulty = kAllReduce;
  if (argc > 1 && std::strcmp(argv[1], "wrong") == 0) {
    faulty.run = spoil;
  } else if (argc > 1 && std::strcmp(argv[1], "dies") == 0) {
    faulty.run = die;
  } else {
    std::fputs("faulty_perf wrong|dies [options of all_reduce_perf]\n", stderr);
    return 2;
  }
  return hocket::perf::run_program(faulty, argc - 1, argv + 1);
}
