// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Keys are in no log, in no error and on no command line: ranks that log all they can join by a secret, turn strangers
// away, split, lose a rank and shrink, and then somebody reads everything that they have written.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <thread>

#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

constexpr const char* kSecret = "the-Moon-is-made-of-2-cheeses";

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

// The letters that depend on these bytes alone, if so many others go before them.
std::string base64(std::string_view bytes, size_t others) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  uint32_t bits = 0;
  size_t count = 8 * others % 6;
  bool whole = count == 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; whole = true) {
      count -= 6;
      if (whole) text += kLetters[bits >> count & 63];
    }
  }
  return text;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// In none of the forms in which one writes bytes.
void expect_without(const std::string& text, std::string_view secret, const std::string& whose) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char each) { return std::tolower(each); });
  EXPECT_EQ(text.find(secret), std::string::npos) << whose << " as it is";
  EXPECT_EQ(lower.find(hex(secret)), std::string::npos) << whose << " in hexadecimal";
  for (size_t others = 0; others < 3; ++others)
    EXPECT_EQ(text.find(base64(secret, others)), std::string::npos) << whose << " in base64";
}

// Nor anything that looks like sixteen random bytes, whatever they are for.
void expect_no_key(const std::string& text) {
  std::smatch found;
  EXPECT_FALSE(std::regex_search(text, found, std::regex("[0-9A-Fa-f]{32}"))) << found.str() << " in:\n" << text;
  const std::regex long_words("[0-9A-Za-z+/]{22,}");
  for (auto next = std::sregex_iterator(text.begin(), text.end(), long_words); next != std::sregex_iterator(); ++next) {
    const std::string word = next->str();
    const auto has = [&](int (*is)(int)) { return std::any_of(word.begin(), word.end(), is); };
    EXPECT_FALSE(has(std::isupper) && has(std::islower) && has(std::isdigit)) << word << " in:\n" << text;
  }
  const auto is_odd = [](unsigned char each) { return each > '~' || (each < ' ' && each != '\n'); };
  EXPECT_TRUE(std::none_of(text.begin(), text.end(), is_odd)) << text;
}

bool sum(hocketComm_t comm) {
  float value = 1;
  return hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, comm, nullptr) == hocketSuccess;
}

// Argument: the file to which rank 0 writes the id of newcomers. Sums until a rank is lost, and then without it.
const Role secretive_role("secretive", [](const Part& part) {
  hocketComm_t comm = nullptr;
  if (hocketCommInitFromEnvironment(&comm, nullptr) != hocketSuccess) {
    std::printf("turned away: %s\n", hocketGetLastError(nullptr));
    return 3;
  }
  hocketComm_t half = nullptr;
  if (hocketCommSplit(comm, part.rank % 2, part.rank, &half, nullptr) != hocketSuccess || !sum(half)) return 4;
  hocketUniqueId id{};
  if (part.rank == 0 && hocketCommGetUniqueId(comm, &id) == hocketSuccess)
    std::ofstream(part.arguments[0], std::ios::binary).write(id.internal, sizeof id.internal);
  if (!sum(comm)) return 5;
  std::printf("running\n");
  while (sum(comm)) continue;
  std::printf("failed: %s\n", hocketGetLastError(comm));
  hocketComm_t survivors = nullptr;
  if (hocketCommShrink(comm, nullptr, 0, &survivors, nullptr, HOCKET_SHRINK_ABORT) != hocketSuccess || !sum(survivors))
    return 6;
  hocketCommDestroy(half);
  hocketCommDestroy(survivors);
  hocketCommDestroy(comm);
  return 0;
});

Processes::Settings settings(int port, const std::string& secret, const std::string& file) {
  return {{"HOCKET_RANK={}", "HOCKET_SIZE=3", "HOCKET_ADDRESS=127.0.0.1:" + std::to_string(port),
           "HOCKET_SECRET=" + secret, "HOCKET_LOG=debug", "HOCKET_ENCRYPT=on", "HOCKET_TRANSPORTS=tcp",
           "HOCKET_TIMEOUT=500ms", "HOCKET_OPERATION_TIMEOUT=5s", "HOCKET_HOST_ID=host {}"},
          {file},
          {},
          false};
}

// Says what no rank says. False: nobody listens there.
bool knock(int port) {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_open = connect(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  if (is_open) {
    EXPECT_EQ(send(handle, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
  }
  close(handle);
  return is_open;
}

std::string all_command_lines() {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0])) != 0)
      all += read_file(entry.path() / "cmdline") + '\n';
  }
  return all;
}

TEST(Secrets, AreInNoLogInNoErrorAndOnNoCommandLine) {
  const std::string file = testing::TempDir() + "secrets." + std::to_string(getpid());
  const int port = free_port();
  // While ranks 0 and 1 wait for the last one, others come.
  Processes::Settings late = settings(port, kSecret, file);
  late.environment.emplace_back(
      "HOCKET_OPERATION_TIMEOUT=60s");  // those who come with another secret try for five seconds
  late.launcher = {"sh", "-c",
                   "rank={}; while [ $rank = 2 ] && [ ! -e " + file + ".go ]; do sleep 0.05; done; exec \"$@\"", "sh"};
  Processes processes("secretive", 3, late);
  for (int looks = 0; !knock(port); ++looks) {
    ASSERT_LT(looks, 1000) << processes.finish(Seconds(1))[0].output;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string written;
  for (const Processes::End& end :
       Processes("secretive", 2, settings(port, "another secret", file)).finish(Seconds(60)))
    written += end.output;
  EXPECT_THAT(written, HasSubstr("turned away: "));
  std::ofstream{file + ".go"};
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  const std::string command_lines = all_command_lines();
  processes.send_signal(2, SIGKILL);
  for (const Processes::End& end : processes.finish(Seconds(60))) written += end.output;
  const std::string id = read_file(file);
  std::filesystem::remove(file);
  std::filesystem::remove(file + ".go");

  EXPECT_THAT(written, HasSubstr("failed: "));
  EXPECT_THAT(written, HasSubstr("hocket warn: "));
  expect_no_key(written);
  expect_without(written + command_lines, kSecret, "the secret");
  ASSERT_EQ(id.size(), sizeof(hocketUniqueId));
  expect_without(written + command_lines, id.substr(8, 16), "the key of newcomers");
}

// `hocket run` makes a secret and tells it in the environment.
TEST(Secrets, ALauncherTellsThemOnNoCommandLine) {
  const std::string file = testing::TempDir() + "launched." + std::to_string(getpid());
  const std::string program =
      "cat /proc/[0-9]*/cmdline > " + file + "; printf %s \"$HOCKET_SECRET\" > " + file + ".key";
  ASSERT_EQ(std::system((HOCKET_PROGRAM " run -n 1 sh -c '" + program + "'").c_str()), 0);
  const std::string command_lines = read_file(file);
  const std::string secret = read_file(file + ".key");
  std::filesystem::remove(file);
  std::filesystem::remove(file + ".key");
  EXPECT_THAT(command_lines, HasSubstr("HOCKET_SECRET"));  // the name, in `program`
  ASSERT_GE(secret.size(), 16U);
  expect_without(command_lines, secret, "the secret");
}

}  // namespace
}  // namespace hocket::test
