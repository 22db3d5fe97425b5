// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Intel oneCCL on processors. MPI only starts the ranks and tells them where to meet.
#include <mpi.h>

#include <oneapi/ccl.hpp>
#include <optional>

#include "calls.h"

namespace {

std::optional<ccl::communicator> communicator;

}  // namespace

void calls_begin() {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ccl::init();
  ccl::kvs::address_type address{};
  ccl::shared_ptr_class<ccl::kvs> store;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) store = ccl::create_kvs(address);
  communicator.emplace(ccl::create_communicator(ranks, rank, store));
}

void calls_end() { communicator.reset(); }

void call_all_reduce(float* data, size_t count) {
  ccl::allreduce(data, data, count, ccl::reduction::sum, *communicator).wait();
}

void call_broadcast(float* data, size_t count) { ccl::broadcast(data, count, 0, *communicator).wait(); }

void call_all_gather(const float* send, float* recv, size_t part) {
  const ccl::vector_class<size_t> parts(static_cast<size_t>(communicator->size()), part);
  ccl::allgatherv(send, part, recv, parts, *communicator).wait();
}

void call_reduce_scatter(const float* send, float* recv, size_t part) {
  ccl::reduce_scatter(send, recv, part, ccl::reduction::sum, *communicator).wait();
}

void call_alltoall(const float* send, float* recv, size_t part) {
  ccl::alltoall(send, recv, part, *communicator).wait();
}

void call_reduce(const float* send, float* recv, size_t count) {
  ccl::reduce(send, recv, count, ccl::reduction::sum, 0, *communicator).wait();
}

// Those of oneCCL 2022.1.2 end processes without GPUs by a segmentation fault.
void call_sendrecv(const float*, float*, size_t, int, int) { MPI_Abort(MPI_COMM_WORLD, 2); }
