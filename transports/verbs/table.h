// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What we use of libibverbs, as a table of functions: the library is opened at run time, so that one program runs with
// and without it, and a test brings functions of its own. The names and the rules are those of ibv_*(3).
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstdint>

#include "base/status.h"

namespace hocket {

struct VerbsTable {
  int (*fork_init)();
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attributes);
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, size_t max, uint32_t flags, size_t size);

  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* domain);
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* memory, size_t bytes, int access);
  // Null: the library is older than rdma-core 34.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* domain, uint64_t offset, size_t bytes, uint64_t address, int descriptor, int access);
  int (*dereg_mr)(ibv_mr* region);

  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector);
  int (*destroy_cq)(ibv_cq* queue);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** user);
  void (*ack_cq_events)(ibv_cq* queue, unsigned count);
  int (*req_notify_cq)(ibv_cq* queue, int solicited_only);
  int (*poll_cq)(ibv_cq* queue, int max, ibv_wc* completions);

  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int (*destroy_qp)(ibv_qp* pair);
  int (*post_send)(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad);
  int (*post_recv)(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** bad);
  const char* (*wc_status_str)(ibv_wc_status status);
};

// Of the library of this system, opened at the first call; fails, with the reason, where it cannot be opened.
Result<const VerbsTable*> libibverbs();

}  // namespace hocket
