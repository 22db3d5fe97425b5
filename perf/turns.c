/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * All-reduces of float32 with a codec and without, by turns in the same processes' threads: how much longer the one
 * takes than the other, where what the machine does between two runs is more than that. Times are medians of rank 0's
 * turns.
 *
 *   turns RANKS SPECIFICATION BYTES...
 */
#define _POSIX_C_SOURCE 200112L  // clock_gettime

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hocket/hocket.h"

enum { kMostRanks = 16, kMostElements = 1 << 23, kTurns = 60, kTurnBytes = 1 << 25, kMostCalls = 5000 };

static hocketComm_t comms[kMostRanks];
static hocketCodec_t codec;
static float *mine, *sums[kMostRanks];
static size_t count;
static double plain[kTurns], coded[kTurns];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double turn(size_t rank, int calls, int with_codec) {
  const double begin = now();
  for (int call = 0; call < calls; ++call) {
    const hocketResult_t result =
        with_codec ? hocketAllReduceCompressed(mine, sums[rank], count, hocketFloat32, hocketSum, codec, NULL,
                                               comms[rank], NULL)
                   : hocketAllReduce(mine, sums[rank], count, hocketFloat32, hocketSum, comms[rank], NULL);
    if (result != hocketSuccess) abort();
  }
  return (now() - begin) / calls;
}

static void* take_turns(void* comm) {
  const size_t rank = (size_t)((hocketComm_t*)comm - comms);
  const size_t fit = kTurnBytes / (4 * count);
  const int calls = fit > kMostCalls ? kMostCalls : fit < 4 ? 4 : (int)fit;
  for (int i = 0; i < kTurns; ++i) {
    const double without = turn(rank, calls, 0), with = turn(rank, calls, 1);
    if (rank == 0) {
      plain[i] = without;
      coded[i] = with;
    }
  }
  return NULL;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static double median(double* times) {
  qsort(times, kTurns, sizeof *times, compare);
  return times[kTurns / 2];
}

static void measure(int ranks) {
  pthread_t threads[kMostRanks];
  for (int i = 0; i < ranks; ++i) pthread_create(&threads[i], NULL, take_turns, &comms[i]);
  for (int i = 0; i < ranks; ++i) pthread_join(threads[i], NULL);
  const double without = median(plain), with = median(coded);
  printf("%10zu bytes: %12.1f ns, with the codec %12.1f ns: %.3f\n", 4 * count, without, with, with / without);
}

int main(int argc, char** argv) {
  const int ranks = argc > 3 ? atoi(argv[1]) : 0;
  if (ranks < 1 || ranks > kMostRanks) {
    fprintf(stderr, "usage: turns RANKS SPECIFICATION BYTES..., at most %d ranks\n", kMostRanks);
    return 2;
  }
  if (hocketCommInitAll(comms, ranks, NULL) != hocketSuccess || hocketCodecCreate(&codec, argv[2]) != hocketSuccess) {
    fprintf(stderr, "turns: %s\n", hocketGetLastError(NULL));
    return 1;
  }
  mine = calloc(kMostElements, sizeof *mine);
  for (int i = 0; i < ranks; ++i) sums[i] = calloc(kMostElements, sizeof *mine);
  for (int i = 3; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    if (bytes < 4 || bytes > 4L * kMostElements) {
      fprintf(stderr, "turns: %s bytes: expected 4 to %ld\n", argv[i], 4L * kMostElements);
      return 2;
    }
    count = (size_t)bytes / 4;
    measure(ranks);
  }
  for (int i = 0; i < ranks; ++i) {
    free(sums[i]);
    hocketCommDestroy(comms[i]);
  }
  free(mine);
  hocketCodecDestroy(codec);
  return 0;
}
