// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// UCX, ready for use: its settings are read and the devices of this host are known to it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "transports/ucx/table.h"

namespace hocket {

class UcxContext {
 public:
  // `tls`: what UCX may use, in the words of UCX_TLS; empty: what that variable says.
  static Result<std::shared_ptr<const UcxContext>> open(const UcxTable& table, const std::string& tls);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  const UcxTable& table() const { return table_; }
  ucp_context_h handle() const { return handle_; }

 private:
  UcxContext(const UcxTable& table, ucp_context_h handle) : table_(table), handle_(handle) {}

  const UcxTable& table_;
  const ucp_context_h handle_;
};

// "ucx: cannot make a worker: Out of memory"
Status ucx_failure(const UcxTable& table, std::string_view what, ucs_status_t status);

}  // namespace hocket
