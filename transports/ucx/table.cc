// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/table.h"

#include "transports/library.h"

namespace hocket {
namespace {

void load_workers(Library& library, UcxTable* table) {
  library.load("ucp_get_version", &table->get_version);
  library.load("ucp_config_read", &table->config_read);
  library.load("ucp_config_modify", &table->config_modify);
  library.load("ucp_config_release", &table->config_release);
  library.load("ucp_init_version", &table->init_version);
  library.load("ucp_cleanup", &table->cleanup);
  library.load("ucp_worker_create", &table->worker_create);
  library.load("ucp_worker_destroy", &table->worker_destroy);
  library.load("ucp_worker_get_address", &table->worker_get_address);
  library.load("ucp_worker_release_address", &table->worker_release_address);
  library.load("ucp_worker_get_efd", &table->worker_get_efd);
  library.load("ucp_worker_arm", &table->worker_arm);
  library.load("ucp_worker_progress", &table->worker_progress);
  library.load("ucp_worker_set_am_recv_handler", &table->worker_set_am_recv_handler);
}

void load_operations(Library& library, UcxTable* table) {
  library.load("ucp_ep_create", &table->ep_create);
  library.load("ucp_ep_close_nbx", &table->ep_close_nbx);
  library.load("ucp_ep_flush_nbx", &table->ep_flush_nbx);
  library.load("ucp_am_send_nbx", &table->am_send_nbx);
  library.load("ucp_am_recv_data_nbx", &table->am_recv_data_nbx);
  library.load("ucp_am_data_release", &table->am_data_release);
  library.load("ucp_request_check_status", &table->request_check_status);
  library.load("ucp_request_free", &table->request_free);
}

Result<const UcxTable*> open_library() {
  Result<Library> ucp = Library::open("libucp.so.0");
  if (!ucp.ok()) return ucp.status();
  Result<Library> ucs = Library::open("libucs.so.0");
  if (!ucs.ok()) return ucs.status();
  static UcxTable table{};
  load_workers(*ucp, &table);
  load_operations(*ucp, &table);
  ucs->load("ucs_status_string", &table.status_string);
  HOCKET_TRY(ucp->complete());
  HOCKET_TRY(ucs->complete());
  return &table;
}

}  // namespace

Result<const UcxTable*> libucp() {
  static const Result<const UcxTable*> kOpened = open_library();
  return kOpened;
}

}  // namespace hocket
