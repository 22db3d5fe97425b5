/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * All-reduce of float32, in place, over any MPI: the peers' side of compare.py. Arguments: BYTES:ITERATIONS, one for
 * each size. Rank 0 prints "bytes,microseconds,wrong" for each: the slowest rank's mean time and the wrong elements of
 * all.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Small whole numbers, so that every sum is exact; a prime period, so that a shifted piece shows. */
static float element(size_t index, int rank) { return (float)((index % 251 + (size_t)rank) % 7); }

static void fill(float* data, size_t count, int rank) {
  for (size_t i = 0; i < count; ++i) data[i] = element(i, rank);
}

static long count_wrong(const float* data, size_t count, int ranks) {
  long wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += element(i, rank);
    if (data[i] != sum) ++wrong;
  }
  return wrong;
}

static void all_reduce(float* data, size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run(size_t bytes, int iterations, int rank, int ranks) {
  const size_t count = bytes / sizeof(float);
  float* data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  fill(data, count, rank);
  all_reduce(data, count);
  long wrong = count_wrong(data, count, ranks);
  fill(data, count, rank);
  for (int i = 0; i < iterations / 10 + 1; ++i) all_reduce(data, count);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) all_reduce(data, count);
  const double mine = (MPI_Wtime() - start) / iterations;
  double slowest = 0;
  long all_wrong = 0;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%zu,%.3f,%ld\n", bytes, slowest * 1e6, all_wrong);
  free(data);
}

int main(int argc, char** argv) {
  int rank = 0;
  int ranks = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 1; i < argc; ++i) {
    size_t bytes = 0;
    int iterations = 0;
    if (sscanf(argv[i], "%zu:%d", &bytes, &iterations) != 2 || bytes < sizeof(float) || iterations < 1) {
      fprintf(stderr, "mpi_bench: '%s' is not BYTES:ITERATIONS\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    run(bytes, iterations, rank, ranks);
  }
  MPI_Finalize();
  return 0;
}
