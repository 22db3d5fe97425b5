// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One rank as a process of its own. Joins, says "joined", and then does what its standard input says, line by line;
// each command is answered with one line. Usage: mesh_helper (ID-IN-HEX | environment) [RANK RANKS]
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

#include "comm/launch.h"
#include "comm/mesh.h"
#include "comm/service.h"

namespace hocket {
namespace {

constexpr int kPatienceMs = 20000;

void say(const std::string& line) { std::cout << line << std::endl; }

template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < kPatienceMs; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// A token to the next rank, one from the last.
std::string ring(Mesh& mesh) {
  const int32_t next = (mesh.rank() + 1) % mesh.ranks();
  const int32_t last = (mesh.rank() + mesh.ranks() - 1) % mesh.ranks();
  Sender* sender = nullptr;
  Receiver* receiver = nullptr;
  const int32_t token = mesh.rank();
  if (!eventually([&] { return (sender = mesh.sender(PipeClass::kCollective, next, 0)) != nullptr; }))
    return "no sender";
  std::memcpy(sender->reserve(sizeof token), &token, sizeof token);
  sender->commit(sizeof token, {1, 0});
  const Message* message = nullptr;
  const bool came = eventually([&] {
    (void)sender->progress();
    if (receiver == nullptr) receiver = mesh.receiver(PipeClass::kCollective, last, 0);
    if (receiver == nullptr) return false;
    (void)receiver->progress();
    message = receiver->peek();
    return message != nullptr;
  });
  if (!came) return "no token: " + mesh.status().message();
  int32_t received = -1;
  std::memcpy(&received, message->data, sizeof received);
  receiver->release();
  return received == last ? "token by " + std::string(mesh.transport_name(next)) : "wrong token";
}

// A child that ends with exit() must not say farewell for us, cannot use what is ours, and can start afresh.
std::string forked_child(const std::shared_ptr<Mesh>& mesh) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool told = mesh->failed() && mesh->status().message().find("was forked from process") != std::string::npos;
    const bool unusable = mesh->sender(PipeClass::kCollective, 1, 0) == nullptr;
    JoinOptions options;
    options.unique_id = *make_unique_id(process_service());
    const bool afresh = join_mesh(process_service(), options).ok();
    std::exit((told ? 1 : 0) + (unusable ? 2 : 0) + (afresh ? 4 : 0));
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  return "child ended with " + std::to_string(WEXITSTATUS(state));
}

std::string obey(const std::string& command, const std::shared_ptr<Mesh>& mesh) {
  if (command == "ring") return ring(*mesh);
  if (command == "fork") return forked_child(mesh);
  if (command == "status") return mesh->failed() ? mesh->status().message() : "ok";
  if (command == "wait") return eventually([&] { return mesh->failed(); }) ? mesh->status().message() : "did not fail";
  if (command == "die of it") {
    if (eventually([&] { return mesh->failed(); })) ::_exit(1);
  }
  if (command == "leave") return mesh->leave(), "left";
  if (command.starts_with("gone ")) {
    const int32_t peer = std::stoi(command.substr(5));
    return eventually([&] { return mesh->has_left(peer); }) ? "gone" : "still there";
  }
  return "unknown command " + command;
}

int run(int argc, char** argv) {
  JoinOptions options;
  if (std::string(argv[1]) == "environment") {
    const Result<Launch> launch = detect_launch(process_environment());
    if (!launch.ok()) return say(launch.status().message()), 1;
    const Result<std::string> id = unique_id_from_environment(process_service(), *launch);
    if (!id.ok()) return say(id.status().message()), 1;
    options.unique_id = *id;
    options.rank = launch->rank;
    options.ranks = launch->ranks;
  } else if (argc == 4) {
    options.unique_id = from_hex(argv[1]);
    options.rank = std::stoi(argv[2]);
    options.ranks = std::stoi(argv[3]);
  }
  Result<std::shared_ptr<Mesh>> mesh = join_mesh(process_service(), options);
  if (!mesh.ok()) return say(mesh.status().message()), 1;
  say("joined");
  static std::shared_ptr<Mesh> kept = *mesh;  // still open when the program ends by exit()
  for (std::string command; std::getline(std::cin, command);) {
    if (command == "exit") std::exit(0);
    if (command == "again") {  // one more communicator from the same environment
      const Result<std::string> id =
          unique_id_from_environment(process_service(), *detect_launch(process_environment()));
      options.unique_id = id.ok() ? *id : "";
      const Result<std::shared_ptr<Mesh>> more = join_mesh(process_service(), options);
      say(more.ok() ? ring(**more) : id.status().message() + more.status().message());
      continue;
    }
    say(obey(command, kept));
  }
  kept->leave();
  return 0;
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) { return argc < 2 ? 2 : hocket::run(argc, argv); }
