/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * The same all-reduce again and again between two threads, of 4 bytes or more, with a codec if one is given: what
 * instructions.py and shares.py count.
 *
 *   repeat CALLS [BYTES [SPECIFICATION]]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "hocket/hocket.h"

static hocketComm_t comms[2];
static hocketCodec_t codec;
static size_t calls, count = 1;

enum { kMostElements = 1 << 21 };
static float mine[kMostElements], sums[2][kMostElements];

static hocketResult_t all_reduce(float* sum, hocketComm_t comm) {
  if (codec == NULL) return hocketAllReduce(mine, sum, count, hocketFloat32, hocketSum, comm, NULL);
  return hocketAllReduceCompressed(mine, sum, count, hocketFloat32, hocketSum, codec, NULL, comm, NULL);
}

static void* rank(void* comm) {
  float* sum = sums[(hocketComm_t*)comm - comms];
  for (size_t call = 0; call < calls; ++call) {
    if (all_reduce(sum, *(hocketComm_t*)comm) != hocketSuccess || sum[count - 1] != 2) abort();
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[2];
  if (argc >= 2) calls = strtoul(argv[1], NULL, 10);
  if (argc >= 3) count = strtoul(argv[2], NULL, 10) / sizeof *mine;
  if (argc > 4 || calls < 1 || count < 1 || count > kMostElements) {
    fprintf(stderr, "usage: repeat CALLS [BYTES [SPECIFICATION]]\n");
    return 2;
  }
  for (size_t i = 0; i < count; ++i) mine[i] = 1;
  if (hocketCommInitAll(comms, 2, NULL) != hocketSuccess) return 1;
  if (argc == 4 && hocketCodecCreate(&codec, argv[3]) != hocketSuccess) return 1;
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, rank, &comms[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; ++i) hocketCommDestroy(comms[i]);
  hocketCodecDestroy(codec);
  return 0;
}
