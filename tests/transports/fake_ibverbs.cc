// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A library with the name and the functions of libibverbs, for programs that look for it: each asks the table of
// whoever has loaded this, as fake_verbs.h has one.
#include "transports/verbs/table.h"

#define FAKE_API __attribute__((visibility("default")))
#undef ibv_query_port
#undef ibv_reg_mr

namespace {

const hocket::VerbsTable* table = nullptr;

}  // namespace

extern "C" {

FAKE_API void use_verbs_table(const hocket::VerbsTable* given) { table = given; }

FAKE_API int ibv_fork_init() { return table->fork_init(); }
FAKE_API ibv_device** ibv_get_device_list(int* count) { return table->get_device_list(count); }
FAKE_API void ibv_free_device_list(ibv_device** list) { table->free_device_list(list); }
FAKE_API const char* ibv_get_device_name(ibv_device* device) { return table->get_device_name(device); }
FAKE_API int ibv_close_device(ibv_context* context) { return table->close_device(context); }
FAKE_API ibv_context* ibv_open_device(ibv_device* device) {
  ibv_context* const context = table->open_device(device);
  context->ops.poll_cq = table->poll_cq;
  context->ops.req_notify_cq = table->req_notify_cq;
  context->ops.post_send = table->post_send;
  context->ops.post_recv = table->post_recv;
  return context;
}
FAKE_API int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attributes) {
  return table->query_port(context, port, reinterpret_cast<ibv_port_attr*>(attributes));
}
FAKE_API ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max, uint32_t flags,
                                      size_t size) {
  return table->query_gid_table(context, entries, max, flags, size);
}
FAKE_API ibv_pd* ibv_alloc_pd(ibv_context* context) { return table->alloc_pd(context); }
FAKE_API int ibv_dealloc_pd(ibv_pd* domain) { return table->dealloc_pd(domain); }
FAKE_API ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, size_t bytes, int access) {
  return table->reg_mr(domain, memory, bytes, access);
}
FAKE_API ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, uint64_t offset, size_t bytes, uint64_t address, int file,
                                   int access) {
  return table->reg_dmabuf_mr(domain, offset, bytes, address, file, access);
}
FAKE_API int ibv_dereg_mr(ibv_mr* region) { return table->dereg_mr(region); }
FAKE_API ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) { return table->create_comp_channel(context); }
FAKE_API int ibv_destroy_comp_channel(ibv_comp_channel* channel) { return table->destroy_comp_channel(channel); }
FAKE_API ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector) {
  return table->create_cq(context, entries, user, channel, vector);
}
FAKE_API int ibv_destroy_cq(ibv_cq* queue) { return table->destroy_cq(queue); }
FAKE_API int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) {
  return table->get_cq_event(channel, queue, user);
}
FAKE_API void ibv_ack_cq_events(ibv_cq* queue, unsigned count) { table->ack_cq_events(queue, count); }
FAKE_API ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  return table->create_qp(domain, attributes);
}
FAKE_API int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  return table->modify_qp(pair, attributes, mask);
}
FAKE_API int ibv_destroy_qp(ibv_qp* pair) { return table->destroy_qp(pair); }
FAKE_API const char* ibv_wc_status_str(ibv_wc_status status) { return table->wc_status_str(status); }

}  // extern "C"
