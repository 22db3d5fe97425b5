// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/table.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace hocket {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

// Looks up one name after another; the first that is missing is the reason of the failure.
class Loader {
 public:
  explicit Loader(void* library) : library_(library) {}

  template <typename Function>
  void load(const char* name, Function* into) {
    void* found = ::dlsym(library_, name);
    if (found == nullptr && missing_ == nullptr) missing_ = name;
    *into = reinterpret_cast<Function>(found);
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void load_devices(Loader& loader, VerbsTable* table) {
  loader.load("ibv_get_device_list", &table->get_device_list);
  loader.load("ibv_free_device_list", &table->free_device_list);
  loader.load("ibv_get_device_name", &table->get_device_name);
  loader.load("ibv_open_device", &table->open_device);
  loader.load("ibv_close_device", &table->close_device);
  loader.load("ibv_query_port", &table->query_port);
  loader.load("_ibv_query_gid_table", &table->query_gid_table);
  loader.load("ibv_alloc_pd", &table->alloc_pd);
  loader.load("ibv_dealloc_pd", &table->dealloc_pd);
  loader.load("ibv_reg_mr", &table->reg_mr);
  loader.load("ibv_dereg_mr", &table->dereg_mr);
}

void load_queues(Loader& loader, VerbsTable* table) {
  loader.load("ibv_create_comp_channel", &table->create_comp_channel);
  loader.load("ibv_destroy_comp_channel", &table->destroy_comp_channel);
  loader.load("ibv_create_cq", &table->create_cq);
  loader.load("ibv_destroy_cq", &table->destroy_cq);
  loader.load("ibv_get_cq_event", &table->get_cq_event);
  loader.load("ibv_ack_cq_events", &table->ack_cq_events);
  loader.load("ibv_create_qp", &table->create_qp);
  loader.load("ibv_modify_qp", &table->modify_qp);
  loader.load("ibv_destroy_qp", &table->destroy_qp);
  loader.load("ibv_wc_status_str", &table->wc_status_str);
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
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // for as long as the process lives
  if (library == nullptr) return Status(Code::kSystem, fmt::format("cannot open {}: {}", kLibrary, ::dlerror()));
  static VerbsTable table{};
  Loader loader(library);
  load_devices(loader, &table);
  load_queues(loader, &table);
  if (loader.missing() != nullptr) {
    return Status(Code::kSystem, fmt::format("{} is too old: it has no {}", kLibrary, loader.missing()));
  }
  return &table;
}

}  // namespace

Result<const VerbsTable*> libibverbs() {
  static const Result<const VerbsTable*> kOpened = open_library();
  return kOpened;
}

}  // namespace hocket
