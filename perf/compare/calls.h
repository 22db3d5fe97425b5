/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * The collectives that bench.c times, as one library or another makes them. Float32, sums, root 0, all ranks of
 * MPI_COMM_WORLD; counts are elements, `part` those of one rank.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void calls_begin(void); /* after MPI_Init */
void calls_end(void);

void call_all_reduce(float* data, size_t count);
void call_broadcast(float* data, size_t count);
void call_all_gather(const float* send, float* recv, size_t part);
void call_reduce_scatter(const float* send, float* recv, size_t part);
void call_alltoall(const float* send, float* recv, size_t part);
void call_reduce(const float* send, float* recv, size_t count);
void call_sendrecv(const float* send, float* recv, size_t count, int to, int from);

#ifdef __cplusplus
}
#endif
