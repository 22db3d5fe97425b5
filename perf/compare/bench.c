/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * Collectives of float32 by any library that has calls.h: the peers' side of compare.py. Arguments: all_reduce,
 * broadcast, reduce, all_gather, reduce_scatter, alltoall or sendrecv (to the next rank, from the one before), and then
 * BYTES:ITERATIONS for each size. Sizes count as nccl-tests counts them: the whole of the larger buffer. All-reduce and
 * broadcast work in place, the others out of place. Rank 0 prints "bytes,microseconds,wrong" for each size: the slowest
 * rank's mean time and the wrong elements of all.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

struct job {
  int rank, ranks;
  size_t count; /* elements of the larger buffer */
  size_t part;  /* of these, one rank's */
  float* send;
  float* recv;
};

struct collective {
  const char* name;
  void (*call)(const struct job*);
  size_t (*result)(const struct job*); /* elements that a rank receives */
  float (*expected)(const struct job*, size_t index);
};

/* Small whole numbers, so that every sum is exact; a prime period, so that a shifted piece shows. */
static float element(size_t index, int rank) { return (float)((index % 251 + (size_t)rank) % 7); }

static float sum(const struct job* job, size_t index) {
  float total = 0;
  for (int rank = 0; rank < job->ranks; ++rank) total += element(index, rank);
  return total;
}

static size_t whole(const struct job* job) { return job->count; }
static size_t all_parts(const struct job* job) { return job->part * (size_t)job->ranks; }
static size_t one_part(const struct job* job) { return job->part; }
static size_t whole_of_root(const struct job* job) { return job->rank == 0 ? job->count : 0; }

static void all_reduce(const struct job* job) { call_all_reduce(job->recv, job->count); }

static void broadcast(const struct job* job) { call_broadcast(job->recv, job->count); }
static float of_root(const struct job* job, size_t index) { return (void)job, element(index, 0); }

static void all_gather(const struct job* job) { call_all_gather(job->send, job->recv, job->part); }
static float gathered(const struct job* job, size_t index) {
  return element(index % job->part, (int)(index / job->part));
}

static void reduce_scatter(const struct job* job) { call_reduce_scatter(job->send, job->recv, job->part); }
static float scattered(const struct job* job, size_t index) { return sum(job, (size_t)job->rank * job->part + index); }

static void alltoall(const struct job* job) { call_alltoall(job->send, job->recv, job->part); }
static float exchanged(const struct job* job, size_t index) {
  return element((size_t)job->rank * job->part + index % job->part, (int)(index / job->part));
}

static void reduce(const struct job* job) { call_reduce(job->send, job->recv, job->count); }

static int neighbour(const struct job* job, int distance) { return (job->rank + job->ranks + distance) % job->ranks; }
static void sendrecv(const struct job* job) {
  call_sendrecv(job->send, job->recv, job->count, neighbour(job, 1), neighbour(job, -1));
}
static float passed_on(const struct job* job, size_t index) { return element(index, neighbour(job, -1)); }

static const struct collective collectives[] = {
    {"all_reduce", all_reduce, whole, sum},          {"broadcast", broadcast, whole, of_root},
    {"all_gather", all_gather, all_parts, gathered}, {"reduce_scatter", reduce_scatter, one_part, scattered},
    {"alltoall", alltoall, all_parts, exchanged},    {"reduce", reduce, whole_of_root, sum},
    {"sendrecv", sendrecv, whole, passed_on},
};

/* In place, what is received is what was there. */
static void fill(const struct job* job) {
  for (size_t i = 0; i < job->count; ++i) job->send[i] = job->recv[i] = element(i, job->rank);
}

static float* allocate(size_t count) {
  float* memory = aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memory;
}

static void run(const struct collective* collective, size_t bytes, int iterations) {
  struct job job = {0};
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  job.count = bytes / sizeof(float);
  job.part = job.count / (size_t)job.ranks;
  job.send = allocate(job.count);
  job.recv = allocate(job.count);
  fill(&job);
  collective->call(&job);
  long wrong = 0;
  const size_t received = collective->result(&job);
  for (size_t i = 0; i < received; ++i) wrong += job.recv[i] != collective->expected(&job, i);
  fill(&job);
  for (int i = 0; i < iterations; ++i) collective->call(&job);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) collective->call(&job);
  const double mine = (MPI_Wtime() - start) / iterations;
  double slowest = 0;
  long all_wrong = 0;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (job.rank == 0) printf("%zu,%.3f,%ld\n", bytes, slowest * 1e6, all_wrong);
  free(job.send);
  free(job.recv);
}

static const struct collective* find(const char* name) {
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; ++i) {
    if (strcmp(collectives[i].name, name) == 0) return &collectives[i];
  }
  fprintf(stderr, "bench: there is no '%s'\n", name);
  MPI_Abort(MPI_COMM_WORLD, 2);
  return NULL;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  calls_begin();
  const struct collective* collective = find(argc > 1 ? argv[1] : "");
  for (int i = 2; i < argc; ++i) {
    size_t bytes = 0;
    int iterations = 0;
    if (sscanf(argv[i], "%zu:%d", &bytes, &iterations) != 2 || bytes < sizeof(float) || iterations < 1) {
      fprintf(stderr, "bench: '%s' is not BYTES:ITERATIONS\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    run(collective, bytes, iterations);
  }
  calls_end();
  MPI_Finalize();
  return 0;
}
