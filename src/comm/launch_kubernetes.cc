// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/launch_kubernetes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "comm/launch_variables.h"

namespace hocket {
namespace {

using Json = nlohmann::json;
constexpr size_t kMaxTfConfigBytes = size_t{8} << 20;

// Deeper nesting than any TF_CONFIG has.
constexpr int kMaxDepth = 8;

Json parse(const std::string& text) {
  if (text.size() > kMaxTfConfigBytes) return Json(Json::value_t::discarded);
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  return Json::parse(text, is_shallow, false);
}

const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? kNothing : *found;
}

std::vector<std::string> addresses(const Json& cluster, const char* type) {
  std::vector<std::string> found;
  for (const Json& each : member(cluster, type)) {
    if (each.is_string()) found.push_back(each.get<std::string>());
  }
  return found;
}

// Of the ranks before this task's type, and all ranks.
std::optional<Launch> launch_of(const Json& config) {
  const Json& task = member(config, "task");
  const Json& type = member(task, "type");
  const Json& index = member(task, "index");
  if (!type.is_string() || !index.is_number_integer()) return {};
  const int64_t number = index.get<int64_t>();
  Launch launch{"tf_config", -1, 0};
  std::string first;
  for (const char* each : {"chief", "master", "worker"}) {
    const std::vector<std::string> found = addresses(member(config, "cluster"), each);
    if (type == each && number >= 0 && number < static_cast<int64_t>(found.size())) {
      launch.rank = launch.ranks + static_cast<int32_t>(number);
    }
    launch.ranks += static_cast<int32_t>(found.size());
    if (first.empty() && !found.empty()) first = found.front();
  }
  uint16_t port = 0;
  std::string host;
  if (launch.rank < 0 || !split_address(first, &host, &port)) return {};
  meet_beside(launch, host, port);
  launch.job = "tf " + first;
  return launch;
}

}  // namespace

std::optional<Launch> from_tf_config(Variables& v) {
  if (!v.has("TF_CONFIG")) return {};
  std::optional<Launch> launch = launch_of(parse(v.text("TF_CONFIG")));
  if (!launch) {
    v.note(
        fmt::format("TF_CONFIG='{:.200}' tells no chief, master or worker among host:port addresses; a task of "
                    "another type has no rank",
                    v.text("TF_CONFIG")));
  }
  return launch;
}

std::optional<Launch> from_trainer(Variables& v) {
  if (!v.has("PET_NODE_RANK") || !v.has("PET_NNODES") || !v.has("PET_MASTER_ADDR")) return {};
  Launch launch{"trainer", v.rank("PET_NODE_RANK"), v.rank("PET_NNODES")};
  const std::optional<uint16_t> port = v.port("PET_MASTER_PORT");
  if (port) meet_beside(launch, v.text("PET_MASTER_ADDR"), *port);
  launch.job = fmt::format("trainer {} {}", v.text("PET_MASTER_ADDR"), v.text("PET_MASTER_PORT"));
  return launch;
}

std::optional<Launch> from_jax(Variables& v) {
  if (!v.has("JAX_PROCESS_ID") || !v.has("JAX_NUM_PROCESSES") || !v.has("JAX_COORDINATOR_ADDRESS")) return {};
  Launch launch{"jax", v.rank("JAX_PROCESS_ID"), v.rank("JAX_NUM_PROCESSES")};
  const std::string& address = v.text("JAX_COORDINATOR_ADDRESS");
  uint16_t port = 0;
  std::string host;
  if (!split_address(address, &host, &port)) {
    v.note(fmt::format("JAX_COORDINATOR_ADDRESS='{}' is not host:port", address));
    return {};
  }
  meet_beside(launch, host, port);
  launch.job = "jax " + address;
  return launch;
}

// One process per pod, so the pod's number is its rank.
std::optional<Launch> from_rank_alone(Variables& v) {
  if (!v.has("RANK") || !v.has("WORLD_SIZE") || !v.has("MASTER_ADDR") || !v.has("MASTER_PORT")) return {};
  Launch launch{"env", v.rank("RANK"), v.rank("WORLD_SIZE")};
  launch.job =
      fmt::format("torch {} {} {}", v.text("TORCHELASTIC_RUN_ID"), v.text("MASTER_ADDR"), v.text("MASTER_PORT"));
  return launch;
}

}  // namespace hocket
