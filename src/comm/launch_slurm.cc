// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How Slurm abbreviates lists of hosts and of tasks per node.
#include <charconv>

#include "comm/launch.h"

namespace hocket {
namespace {

int32_t leading_number(std::string_view text, size_t* length) {
  int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  *length = static_cast<size_t>(end - text.data());
  return error == std::errc() ? value : -1;
}

}  // namespace

std::string first_slurm_host(const std::string& node_list) {
  std::string host;
  for (size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      host += node_list[i];
      continue;
    }
    const size_t close = node_list.find(']', i);
    if (close == std::string::npos) return {};
    const std::string inside = node_list.substr(i + 1, close - i - 1);
    host += inside.substr(0, inside.find_first_of(",-"));
    i = close;
  }
  return host;
}

int32_t slurm_tasks_of_node(const std::string& tasks_per_node, int32_t node) {
  std::string_view rest = tasks_per_node;
  while (!rest.empty()) {
    size_t length = 0;
    const int32_t tasks = leading_number(rest, &length);
    if (tasks < 0) return -1;
    rest.remove_prefix(length);
    int32_t repeats = 1;
    if (rest.starts_with("(x")) {
      repeats = leading_number(rest.substr(2), &length);
      if (repeats < 1 || rest.size() < length + 3 || rest[length + 2] != ')') return -1;
      rest.remove_prefix(length + 3);
    }
    if (node < repeats) return tasks;
    node -= repeats;
    if (!rest.empty() && rest[0] != ',') return -1;
    if (!rest.empty()) rest.remove_prefix(1);
  }
  return -1;
}

}  // namespace hocket
