/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * A user in C99: the header compiles alone, the library links and reduces. Two ranks in one thread, by a group. */
#include <hocket/hocket.h>
#include <stdio.h>

static int failed(hocketResult_t result, const char* call) {
  if (result != hocketSuccess) {
    fprintf(stderr, "%s: %s: %s\n", call, hocketGetErrorString(result), hocketGetLastError(NULL));
  }
  return result != hocketSuccess;
}

int main(void) {
  hocketComm_t comms[2];
  float values[2][3] = {{1, 2, 3}, {10, 20, 30}};
  int version = 0;
  int rank;
  if (failed(hocketGetVersion(&version), "GetVersion") || version != HOCKET_VERSION_CODE) return 1;
  if (failed(hocketCommInitAll(comms, 2, NULL), "CommInitAll")) return 1;
  if (failed(hocketGroupStart(), "GroupStart")) return 1;
  for (rank = 0; rank < 2; ++rank) {
    if (failed(hocketAllReduce(values[rank], values[rank], 3, hocketFloat32, hocketSum, comms[rank], NULL),
               "AllReduce")) {
      return 1;
    }
  }
  if (failed(hocketGroupEnd(), "GroupEnd")) return 1;
  for (rank = 0; rank < 2; ++rank) {
    if (values[rank][0] != 11 || values[rank][1] != 22 || values[rank][2] != 33) return 1;
    if (failed(hocketCommDestroy(comms[rank]), "CommDestroy")) return 1;
  }
  return 0;
}
