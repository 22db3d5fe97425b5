/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * Every rank contributes its number; every rank receives the sum. Runs under mpirun, torchrun, srun, or alone. */
#include <hocket/hocket.h>
#include <stdio.h>
#include <stdlib.h>

static void check(hocketResult_t result, hocketComm_t comm) {
  if (result == hocketSuccess) return;
  fprintf(stderr, "%s: %s\n", hocketGetErrorString(result), hocketGetLastError(comm));
  exit(EXIT_FAILURE);
}

int main(void) {
  hocketComm_t comm = NULL;
  int rank = 0, ranks = 0;
  check(hocketCommInitFromEnvironment(&comm, NULL), NULL);
  check(hocketCommUserRank(comm, &rank), comm);
  check(hocketCommCount(comm, &ranks), comm);

  float mine[3], sum[3];
  for (int i = 0; i < 3; ++i) mine[i] = (float)(rank + i);
  check(hocketAllReduce(mine, sum, 3, hocketFloat32, hocketSum, comm, NULL), comm);

  printf("rank %d of %d: %g %g %g\n", rank, ranks, sum[0], sum[1], sum[2]);
  check(hocketCommDestroy(comm), NULL);
  return 0;
}
