/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 */
#include <mpi.h>

#include "calls.h"

void calls_begin(void) {}
void calls_end(void) {}

void call_all_reduce(float* data, size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void call_broadcast(float* data, size_t count) { MPI_Bcast(data, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD); }

void call_all_gather(const float* send, float* recv, size_t part) {
  MPI_Allgather(send, (int)part, MPI_FLOAT, recv, (int)part, MPI_FLOAT, MPI_COMM_WORLD);
}

void call_reduce_scatter(const float* send, float* recv, size_t part) {
  MPI_Reduce_scatter_block(send, recv, (int)part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void call_alltoall(const float* send, float* recv, size_t part) {
  MPI_Alltoall(send, (int)part, MPI_FLOAT, recv, (int)part, MPI_FLOAT, MPI_COMM_WORLD);
}

void call_reduce(const float* send, float* recv, size_t count) {
  MPI_Reduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

void call_sendrecv(const float* send, float* recv, size_t count, int to, int from) {
  MPI_Sendrecv(send, (int)count, MPI_FLOAT, to, 0, recv, (int)count, MPI_FLOAT, from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}
