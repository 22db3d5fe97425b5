// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/table.h"

#include "transports/library.h"

namespace hocket {
namespace {

void load_devices(Library& library, VerbsTable* table) {
  library.load("ibv_fork_init", &table->fork_init);
  library.load("ibv_get_device_list", &table->get_device_list);
  library.load("ibv_free_device_list", &table->free_device_list);
  library.load("ibv_get_device_name", &table->get_device_name);
  library.load("ibv_open_device", &table->open_device);
  library.load("ibv_close_device", &table->close_device);
  library.load("ibv_query_port", &table->query_port);
  library.load("_ibv_query_gid_table", &table->query_gid_table);
  library.load("ibv_alloc_pd", &table->alloc_pd);
  library.load("ibv_dealloc_pd", &table->dealloc_pd);
  library.load("ibv_reg_mr", &table->reg_mr);
  library.load_if_there("ibv_reg_dmabuf_mr", &table->reg_dmabuf_mr);
  library.load("ibv_dereg_mr", &table->dereg_mr);
}

void load_queues(Library& library, VerbsTable* table) {
  library.load("ibv_create_comp_channel", &table->create_comp_channel);
  library.load("ibv_destroy_comp_channel", &table->destroy_comp_channel);
  library.load("ibv_create_cq", &table->create_cq);
  library.load("ibv_destroy_cq", &table->destroy_cq);
  library.load("ibv_get_cq_event", &table->get_cq_event);
  library.load("ibv_ack_cq_events", &table->ack_cq_events);
  library.load("ibv_create_qp", &table->create_qp);
  library.load("ibv_modify_qp", &table->modify_qp);
  library.load("ibv_destroy_qp", &table->destroy_qp);
  library.load("ibv_wc_status_str", &table->wc_status_str);
  // These four are the device's own, behind inline functions of the header.
  table->req_notify_cq = [](ibv_cq* queue, int solicited_only) { return ::ibv_req_notify_cq(queue, solicited_only); };
  table->poll_cq = [](ibv_cq* queue, int max, ibv_wc* completions) { return ::ibv_poll_cq(queue, max, completions); };
  table->post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad) {
    return ::ibv_post_send(pair, request, bad);
  };
  table->post_recv = [](ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** bad) {
    return ::ibv_post_recv(pair, request, bad);
  };
}

Result<const VerbsTable*> open_library() {
  Result<Library> library = Library::open("libibverbs.so.1");
  if (!library.ok()) return library.status();
  static VerbsTable table{};
  load_devices(*library, &table);
  load_queues(*library, &table);
  HOCKET_TRY(library->complete());
  return &table;
}

}  // namespace

Result<const VerbsTable*> libibverbs() {
  static const Result<const VerbsTable*> kOpened = open_library();
  return kOpened;
}

}  // namespace hocket
