// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket run: a program, so many times on this machine, each with a rank. When one fails, all end; with --min, those
// that are left go on, and another is started in its place.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "commands.h"
#include "workers.h"

namespace hocket::tool {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr int32_t kMaxRanks = 1024;
constexpr milliseconds kForEver = std::chrono::hours(24);

struct Words {
  int32_t ranks = 1;
  int32_t least = 0;
  int32_t restarts = 3;
  bool plain = false;
  bool nccl = false;
  std::vector<std::string> command;
  int exit_status = EXIT_SUCCESS;
};

// What says that somebody else started us: it would contradict what we say.
void forget_other_launchers(Environment& environment) {
  for (const char* name :
       {"HOROVOD_RANK",      "HOROVOD_SIZE",      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
        "PMI_SIZE",          "PMIX_RANK",         "SLURM_PROCID",         "TORCHELASTIC_RUN_ID",  "RANK",
        "WORLD_SIZE",        "LOCAL_RANK",        "LOCAL_WORLD_SIZE",     "HOCKET_RANK",          "HOCKET_SIZE",
        "HOCKET_LOCAL_RANK", "HOCKET_LOCAL_SIZE", "HOCKET_ADDRESS",       "HOCKET_ELASTIC",       "HOCKET_NEWCOMER"}) {
    environment.erase(name);
  }
}

// Two that nobody listens at now.
Result<std::pair<uint16_t, uint16_t>> free_ports() {
  const Descriptor sockets[] = {Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
                                Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  uint16_t ports[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(sockets[i].get(), generic, length) != 0 || getsockname(sockets[i].get(), generic, &length) != 0) {
      return system_failure("a free port", errno);
    }
    ports[i] = ntohs(address.sin_port);
  }
  return std::pair(ports[0], ports[1]);
}

Result<std::string> new_secret() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return system_failure("getrandom", errno);
  std::string secret;
  for (const unsigned char byte : bytes) secret += fmt::format("{:02x}", byte);
  return secret;
}

// Our libnccl.so.2, where it is installed or built beside this program.
Result<std::string> nccl_library() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* folder : {"../" HOCKET_LIBRARY_FOLDER "/hocket", "../src/nccl/lib"}) {
    const fs::path library = fs::weakly_canonical(here / folder / "libnccl.so.2", ignored);
    if (fs::exists(library, ignored)) return library.string();
  }
  return Status(Code::kSystem, fmt::format("--nccl: Hocket's libnccl.so.2 does not lie beside {}", here.string()));
}

// Where newcomers meet those who are at work; goes with us.
class MeetingFolder {
 public:
  Status make(int32_t least) {
    std::string path = fs::temp_directory_path() / "hocket-run.XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return system_failure(path, errno);
    path_ = path;
    std::ofstream(path_ / "least") << least;
    return {};
  }
  ~MeetingFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  bool was_taken_in(const std::string& newcomer) const { return fs::exists(path_ / ("member." + newcomer)); }

 private:
  fs::path path_;
};

class Run {
 public:
  explicit Run(Words& words) : words_(words) {}

  Status run() {
    HOCKET_TRY(check());
    HOCKET_TRY(prepare());
    HOCKET_TRY(workers_.watch_signals());
    for (int32_t rank = 0; rank < words_.ranks; ++rank) HOCKET_TRY(start(rank_job(rank)));
    while (workers_.running() > 0 && !ending_) {
      const Result<Workers::News> news = workers_.wait(kForEver);
      if (!news.ok()) return news.status();
      if (news->signal != 0) end_all(news->signal, 128 + news->signal);
      for (const End& end : news->ended) HOCKET_TRY(take_end(end));
      if (!ending_ && nobody_takes_newcomers_in()) end_all(SIGTERM, finished_ > 0 ? EXIT_SUCCESS : last_failure_);
    }
    return {};
  }

 private:
  bool elastic() const { return words_.least > 0; }

  Status check() const {
    if (words_.command.empty()) return {Code::kInvalidArgument, "which program? hocket run -n 4 python train.py"};
    if (words_.least > words_.ranks) {
      return {Code::kInvalidArgument, fmt::format("--min: {} is more than the {} of -n", words_.least, words_.ranks)};
    }
    return {};
  }

  Status prepare() {
    environment_ = process_environment();
    forget_other_launchers(environment_);
    const auto ports = free_ports();
    if (!ports.ok()) return ports.status();
    const Result<std::string> secret = new_secret();
    if (!secret.ok()) return secret.status();
    environment_["HOCKET_SECRET"] = *secret;
    environment_["MASTER_ADDR"] = "127.0.0.1";
    environment_["MASTER_PORT"] = std::to_string(ports->first);
    address_ = fmt::format("127.0.0.1:{}", ports->second);
    environment_.try_emplace("PYTHONUNBUFFERED", "1");
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    environment_.try_emplace("OMP_NUM_THREADS",
                             std::to_string(std::max(1u, cores / static_cast<unsigned>(words_.ranks))));
    if (words_.nccl) HOCKET_TRY(load_before_nccl());
    if (!elastic()) return {};
    HOCKET_TRY(folder_.make(words_.least));
    environment_["HOCKET_ELASTIC"] = folder_.path();
    environment_["HOROVOD_ELASTIC"] = "1";
    return {};
  }

  // Programs find NCCL by a path of their own, which only what is loaded before it comes before.
  Status load_before_nccl() {
    const Result<std::string> library = nccl_library();
    HOCKET_TRY(library.status());
    std::string& preloaded = environment_["LD_PRELOAD"];
    preloaded = preloaded.empty() ? *library : *library + ":" + preloaded;
    return {};
  }

  Job rank_job(int32_t rank) const {
    Job job = new_job(fmt::format("rank {}", rank), fmt::format("[{}] ", rank));
    const std::string size = std::to_string(words_.ranks);
    for (const char* name : {"HOCKET_RANK", "HOCKET_LOCAL_RANK", "RANK", "LOCAL_RANK"}) {
      job.environment[name] = std::to_string(rank);
    }
    for (const char* name : {"HOCKET_SIZE", "HOCKET_LOCAL_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
      job.environment[name] = size;
    }
    job.environment["HOCKET_ADDRESS"] = address_;
    return job;
  }

  Job new_job(std::string name, std::string prefix) const {
    return {std::move(name), words_.plain ? "" : std::move(prefix), words_.command, environment_};
  }

  Status start(const Job& job) {
    HOCKET_TRY(workers_.start(job));
    alive_.insert(job.name);
    return {};
  }

  Status take_end(const End& end) {
    if (ending_) return {};
    alive_.erase(end.name);
    if (end.status == EXIT_SUCCESS) {
      ++finished_;
      return {};
    }
    last_failure_ = end.status;
    fmt::print(stderr, "hocket run: {} ended with status {}\n", end.name, end.status);
    if (elastic() && finished_ == 0 && newcomers_ < words_.restarts && !alive_.empty()) {
      return start_newcomer();
    }
    // Of several that have ended before we looked, those whose end is still to be taken count as alive.
    if (elastic() && alive_.size() + finished_ >= static_cast<size_t>(words_.least)) return {};
    end_all(SIGTERM, end.status);
    return {};
  }

  Status start_newcomer() {
    const std::string name = fmt::format("new{}", ++newcomers_);
    Job job = new_job(name, fmt::format("[{}] ", name));
    job.environment["HOCKET_NEWCOMER"] = name;
    return start(job);
  }

  bool nobody_takes_newcomers_in() const {
    return std::all_of(alive_.begin(), alive_.end(), [this](const std::string& name) {
      return name.starts_with("new") && !folder_.was_taken_in(name);
    });
  }

  // First as they are used to, then for good.
  void end_all(int signal, int exit_status) {
    words_.exit_status = exit_status;
    ending_ = true;
    for (const int each : {signal, SIGTERM, SIGKILL}) {
      if (workers_.running() == 0) return;
      workers_.signal_all(each);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
      while (workers_.running() > 0 && std::chrono::steady_clock::now() < deadline) {
        if (!workers_.wait(milliseconds(100)).ok()) break;
      }
    }
  }

  Words& words_;
  Environment environment_;
  std::string address_;
  MeetingFolder folder_;
  std::set<std::string> alive_;
  int32_t newcomers_ = 0;
  int last_failure_ = EXIT_FAILURE;
  size_t finished_ = 0;  // have come to their end
  bool ending_ = false;
  Workers workers_;
};

}  // namespace

Command run(CLI::App& program) {
  CLI::App* app = program.add_subcommand("run", "Start a program with several ranks on this machine");
  const auto words = std::make_shared<Words>();
  app->add_option("-n,--ranks", words->ranks, "How many")->check(CLI::Range(1, kMaxRanks))->capture_default_str();
  app->add_option("--min", words->least, "Go on with as few as these when others die, and start others in their place")
      ->check(CLI::Range(1, kMaxRanks));
  app->add_option("--restarts", words->restarts, "With --min: how many are started in the place of others")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app->add_flag("--nccl", words->nccl, "The program's calls of NCCL are Hocket's");
  app->add_flag("--plain", words->plain, "Do not mark lines with the rank that printed them");
  app->prefix_command();
  app->footer("Then, without a -- between, the program and its arguments: hocket run -n 4 python train.py --epochs 3");
  const auto run = [app, words] {
    words->command = app->remaining();
    return Run(*words).run();
  };
  return {app, run, [words] { return words->exit_status; }};
}

}  // namespace hocket::tool
