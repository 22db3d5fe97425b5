/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * The same all-reduce of 8 bytes again and again between two threads: what instructions.py counts.
 *
 *   repeat CALLS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "hocket/hocket.h"

static hocketComm_t comms[2];
static int calls;

static void* rank(void* comm) {
  double mine = 1, sum = 0;
  for (int call = 0; call < calls; ++call) {
    if (hocketAllReduce(&mine, &sum, 1, hocketFloat64, hocketSum, *(hocketComm_t*)comm, NULL) != hocketSuccess) abort();
    if (sum != 2) abort();
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[2];
  if (argc != 2 || (calls = atoi(argv[1])) < 1) {
    fprintf(stderr, "usage: repeat CALLS\n");
    return 2;
  }
  if (hocketCommInitAll(comms, 2, NULL) != hocketSuccess) return 1;
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, rank, &comms[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; ++i) hocketCommDestroy(comms[i]);
  return 0;
}
