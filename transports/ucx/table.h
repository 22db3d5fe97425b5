// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What we use of UCX, as a table of functions: libucp is opened at run time, so that one program runs with and without
// it, and a test brings functions of its own. The names and the rules are those of ucp_*.
#pragma once

#include <ucp/api/ucp.h>

#include "base/status.h"

namespace hocket {

struct UcxTable {
  void (*get_version)(unsigned* major, unsigned* minor, unsigned* release);
  ucs_status_t (*config_read)(const char* prefix, const char* file, ucp_config_t** config);
  ucs_status_t (*config_modify)(ucp_config_t* config, const char* name, const char* value);
  void (*config_release)(ucp_config_t* config);
  ucs_status_t (*init_version)(unsigned major, unsigned minor, const ucp_params_t* params, const ucp_config_t* config,
                               ucp_context_h* context);
  void (*cleanup)(ucp_context_h context);

  ucs_status_t (*worker_create)(ucp_context_h context, const ucp_worker_params_t* params, ucp_worker_h* worker);
  void (*worker_destroy)(ucp_worker_h worker);
  ucs_status_t (*worker_get_address)(ucp_worker_h worker, ucp_address_t** address, size_t* bytes);
  void (*worker_release_address)(ucp_worker_h worker, ucp_address_t* address);
  ucs_status_t (*worker_get_efd)(ucp_worker_h worker, int* descriptor);
  ucs_status_t (*worker_arm)(ucp_worker_h worker);
  unsigned (*worker_progress)(ucp_worker_h worker);
  ucs_status_t (*worker_set_am_recv_handler)(ucp_worker_h worker, const ucp_am_handler_param_t* params);

  ucs_status_t (*ep_create)(ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* endpoint);
  ucs_status_ptr_t (*ep_close_nbx)(ucp_ep_h endpoint, const ucp_request_param_t* params);
  ucs_status_ptr_t (*ep_flush_nbx)(ucp_ep_h endpoint, const ucp_request_param_t* params);

  ucs_status_ptr_t (*am_send_nbx)(ucp_ep_h endpoint, unsigned id, const void* header, size_t header_bytes,
                                  const void* data, size_t count, const ucp_request_param_t* params);
  ucs_status_ptr_t (*am_recv_data_nbx)(ucp_worker_h worker, void* offered, void* into, size_t count,
                                       const ucp_request_param_t* params);
  void (*am_data_release)(ucp_worker_h worker, void* data);
  ucs_status_t (*request_check_status)(void* request);
  void (*request_free)(void* request);
  const char* (*status_string)(ucs_status_t status);
};

// Of the library of this system, opened at the first call; fails, with the reason, where there is none.
Result<const UcxTable*> libucp();

}  // namespace hocket
