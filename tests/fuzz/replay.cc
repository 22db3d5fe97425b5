// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A short run of a fuzz target without libFuzzer: its seeds, each as it is and with seeded changes. The same every
// time.
//
//   NAME_replay FOLDER
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kChangedInputs = 1000;  // of each seed
constexpr int kMostChanges = 8;       // of each of these

using Bytes = std::vector<uint8_t>;

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A byte or a bit is another, some bytes are missing, or come twice.
void change(Bytes& bytes, std::mt19937& random) {
  if (bytes.empty()) return bytes.push_back(static_cast<uint8_t>(random()));
  const size_t at = random() % bytes.size();
  const auto first = bytes.begin() + static_cast<ptrdiff_t>(at);
  const auto last = first + static_cast<ptrdiff_t>(std::min<size_t>(bytes.size() - at, 1 + random() % 8));
  switch (random() % 4) {
    case 0:
      *first = static_cast<uint8_t>(random());
      break;
    case 1:
      *first = static_cast<uint8_t>(*first ^ 1u << random() % 8);
      break;
    case 2:
      bytes.erase(first, last);
      break;
    default:
      const Bytes again(first, last);
      bytes.insert(first, again.begin(), again.end());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<std::filesystem::path> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) seeds.push_back(entry.path());
  std::sort(seeds.begin(), seeds.end());
  std::mt19937 random(1);
  for (const auto& seed : seeds) {
    const Bytes bytes = read(seed);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    for (int input = 0; input < kChangedInputs; ++input) {
      Bytes changed = bytes;
      for (size_t changes = 1 + random() % kMostChanges; changes > 0; --changes) change(changed, random);
      LLVMFuzzerTestOneInput(changed.data(), changed.size());
    }
  }
  std::printf("%zu seeds, each with %d changes\n", seeds.size(), kChangedInputs);
  return seeds.empty() ? 1 : 0;
}
