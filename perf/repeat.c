/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * The same all-reduce again and again between two threads, of 8 bytes or more: what instructions.py and shares.py
 * count.
 *
 *   repeat CALLS [BYTES]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "hocket/hocket.h"

static hocketComm_t comms[2];
static int calls;
static int count = 1;

enum { kMostElements = 1 << 20 };
static double mine[kMostElements], sums[2][kMostElements];

static void* rank(void* comm) {
  double* sum = sums[(hocketComm_t*)comm - comms];
  for (int call = 0; call < calls; ++call) {
    if (hocketAllReduce(mine, sum, (size_t)count, hocketFloat64, hocketSum, *(hocketComm_t*)comm, NULL) !=
        hocketSuccess)
      abort();
    if (sum[count - 1] != 2) abort();
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[2];
  if (argc == 3) count = atoi(argv[2]) / (int)sizeof *mine;
  if (argc < 2 || argc > 3 || (calls = atoi(argv[1])) < 1 || count < 1 || count > kMostElements) {
    fprintf(stderr, "usage: repeat CALLS [BYTES]\n");
    return 2;
  }
  for (int i = 0; i < count; ++i) mine[i] = 1;
  if (hocketCommInitAll(comms, 2, NULL) != hocketSuccess) return 1;
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, rank, &comms[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; ++i) hocketCommDestroy(comms[i]);
  return 0;
}
