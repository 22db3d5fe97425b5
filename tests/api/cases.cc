// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/api/cases.h"

#include <algorithm>
#include <array>
#include <random>
#include <sstream>
#include <string_view>

namespace hocket::test {
namespace {

struct Facts {
  const char* name;
  const char* collective;
  bool reduces;
  bool rooted;
  bool v_form;
};

constexpr std::array<Facts, kFunctions> kFacts = {{
    {"all_reduce", "all_reduce", true, false, false},
    {"broadcast", "broadcast", false, true, false},
    {"reduce", "reduce", true, true, false},
    {"all_gather", "all_gather", false, false, false},
    {"reduce_scatter", "reduce_scatter", true, false, false},
    {"all_to_all", "all_to_all", false, false, false},
    {"gather", "gather", false, true, false},
    {"scatter", "scatter", false, true, false},
    {"scan", "scan", true, false, false},
    {"exscan", "exscan", true, false, false},
    {"all_gather_v", "all_gather", false, false, true},
    {"reduce_scatter_v", "reduce_scatter", true, false, true},
    {"all_to_all_v", "all_to_all", false, false, true},
    {"gather_v", "gather", false, true, true},
    {"scatter_v", "scatter", false, true, true},
    {"send_recv", "send_recv", false, false, false},
}};

const Facts& facts(Function function) { return kFacts[static_cast<size_t>(function)]; }

std::vector<std::string> algorithms_of(Function function) {
  const char* names = hocketGetAlgorithms(facts(function).collective);
  std::vector<std::string> list;
  if (names == nullptr) return list;
  std::istringstream stream(names);
  for (std::string name; std::getline(stream, name, ',');) {
    // Windows need registered memory (windows_test.cc), hierarchies several levels, routes a topology that has some.
    if (!name.starts_with("window") && !name.starts_with("routed") && name != "hierarchical") list.push_back(name);
  }
  return list;
}

constexpr std::string_view kTransports[] = {"local", "shm", "tcp"};
constexpr int kChoices = 16;  // none, and as many as all_reduce has algorithms

// Counts of one block: nothing, one, odd, prime, beyond a cache line, not divisible by any rank count.
constexpr size_t kSmallCounts[] = {1, 13, 0, 67, 515, 1009};
// Beyond the slice, and beyond what one pass moves, of 8 byte elements.
constexpr size_t kLargeCounts[] = {20011, 150001};

size_t bytes_per_block(const Case& one) { return one.count * bytes_of(one.type); }

bool is_defined_for(Function function, hocketDataType_t type, int operation) {
  if (!reduces(function)) return operation == hocketSum;
  const bool scan = function == Function::kScan || function == Function::kExScan;
  return is_defined(type, operation) && !(scan && operation == hocketAvg);
}

// Function, type and operation.
std::vector<Case> kinds(const Cell& cell) {
  std::vector<Case> list;
  for (int function = 0; function < kFunctions; ++function) {
    for (int type = 0; type < hocketNumTypes; ++type) {
      for (int operation = 0; operation < kOperations; ++operation) {
        Case one;
        one.function = static_cast<Function>(function);
        one.type = static_cast<hocketDataType_t>(type);
        one.operation = operation;
        if (is_defined_for(one.function, one.type, operation) && cell.is_worthwhile(one.function)) list.push_back(one);
      }
    }
  }
  return list;
}

std::vector<Place> places_of(Function function) {
  if (!can_be_in_place(function)) return {Place::kApart};
  // An all-to-all is in place on all ranks or on none.
  if (function == Function::kAllToAll) return {Place::kApart, Place::kInPlace};
  return {Place::kApart, Place::kInPlace, Place::kMixed};
}

constexpr size_t kStride = 613;

// Numbers the samples of one choice, so that each goes on where the one before ended.
size_t turn(const Cell& cell, int ranks) {
  const auto transport = static_cast<size_t>(std::find(std::begin(kTransports), std::end(kTransports), cell.transport) -
                                             std::begin(kTransports));
  const auto place =
      static_cast<size_t>(std::find(std::begin(kRankCounts), std::end(kRankCounts), ranks) - std::begin(kRankCounts));
  return transport * std::size(kRankCounts) + place;
}

void vary(Case& one, int ranks, std::mt19937_64& random) {
  one.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
  one.shift = random() % 3 == 0 ? 0 : random() % 9;
  one.gaps = random() % 2 == 0;
  one.absent = random() % 2 == 0;
}

}  // namespace

const char* function_name(Function function) { return facts(function).name; }
const char* collective_name(Function function) { return facts(function).collective; }
bool reduces(Function function) { return facts(function).reduces; }
bool is_rooted(Function function) { return facts(function).rooted; }
bool is_v_form(Function function) { return facts(function).v_form; }
bool can_be_in_place(Function function) { return function != Function::kAllToAllV && function != Function::kSendRecv; }

std::string Case::name() const {
  constexpr const char* kPlaces[] = {"apart", "in place", "in place on odd ranks"};
  std::ostringstream text;
  text << function_name(function) << "(count " << count << ", " << type_name(type);
  if (reduces(function)) text << ", " << operation_name(operation);
  if (is_rooted(function)) text << ", root " << root;
  text << ", " << kPlaces[static_cast<size_t>(place)] << ", shift " << shift;
  if (is_v_form(function)) text << (gaps ? ", gaps" : ", packed");
  return text.str() + (absent ? ", absent buffers NULL)" : ")");
}

std::string Cell::algorithm_of(Function function) const {
  const std::vector<std::string> list = algorithms_of(function);
  if (choice == 0 || list.empty()) return {};
  return list[static_cast<size_t>(choice - 1) % list.size()];
}

std::string Cell::setting() const {
  std::string text;
  for (int function = 0; function <= static_cast<int>(Function::kExScan); ++function) {
    const std::string algorithm = algorithm_of(static_cast<Function>(function));
    if (algorithm.empty()) continue;
    text += (text.empty() ? "" : ",") + std::string(collective_name(static_cast<Function>(function))) + "=" + algorithm;
  }
  return text;
}

bool Cell::is_worthwhile(Function function) const {
  return choice == 0 || static_cast<size_t>(choice) <= algorithms_of(function).size();
}

std::vector<Cell> cells() {
  std::vector<Cell> list;
  for (const std::string_view transport : kTransports) {
    for (int choice = 0; choice < kChoices; ++choice) list.push_back({std::string(transport), choice});
  }
  return list;
}

std::vector<Case> all_cases(const Cell& cell, int ranks) {
  std::vector<Case> list;
  std::mt19937_64 random(static_cast<uint64_t>(ranks * 100 + cell.choice));
  for (Case one : kinds(cell)) {
    for (const Place place : places_of(one.function)) {
      one.place = place;
      for (const size_t count : kSmallCounts) {
        one.count = count;
        vary(one, ranks, random);
        list.push_back(one);
      }
    }
    // Large counts are about slices and passes: of the arithmetic, sums and the created operations will do.
    if (one.operation != hocketSum && one.operation != kUserOrdered && one.operation != hocketAvg) continue;
    one.count = kLargeCounts[random() % 2];
    one.place = places_of(one.function)[random() % places_of(one.function).size()];
    list.push_back(one);
  }
  return list;
}

std::vector<Case> sample_cases(const Cell& cell, int ranks, size_t count, uint64_t seed) {
  constexpr size_t kLargeBlock = size_t{128} << 10;
  const std::vector<Case> all = kinds(cell);
  std::mt19937_64 random(seed * 1009 + static_cast<uint64_t>(ranks * 100 + cell.choice));
  std::vector<Case> list;
  const size_t start = seed + turn(cell, ranks) * count;
  for (size_t i = 0; i < count; ++i) {
    // A stride that shares no factor with the length visits everything before it repeats.
    Case one = all[(start + i) * kStride % all.size()];
    const std::vector<Place> places = places_of(one.function);
    one.place = places[random() % places.size()];
    one.count = kSmallCounts[random() % std::size(kSmallCounts)];
    if (i % 32 == 0) one.count = kLargeCounts[random() % 2];
    if (bytes_per_block(one) > kLargeBlock && ranks > 5) one.count = kLargeCounts[0];
    vary(one, ranks, random);
    list.push_back(one);
  }
  return list;
}

bool is_possible(const Cell& cell, const Case& one, int ranks) {
  const std::string algorithm = cell.algorithm_of(one.function);
  if (algorithm.empty()) return true;
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return algorithm == name; });
  };
  const bool needs_power_of_two = (one.function == Function::kAllGather || one.function == Function::kAllGatherV)
                                      ? algorithm == "recursive_doubling"
                                      : algorithm == "recursive_halving";
  if (needs_power_of_two && (ranks & (ranks - 1)) != 0) return false;
  switch (one.function) {
    // Counts that only two ranks know cannot be relayed.
    case Function::kAllToAllV:
    case Function::kGatherV:
    case Function::kScatterV:
      return algorithm == "direct";
    default:
      break;
  }
  if (!reduces(one.function) || one.operation != kUserOrdered) return true;
  switch (one.function) {
    case Function::kAllReduce:
      return is_one_of({"recursive_doubling", "rabenseifner", "binomial", "knomial", "dual_root", "chain", "one_shot",
                        "two_shot", "in_order"});
    case Function::kReduce:
      return is_one_of({"direct", "in_order"});
    case Function::kReduceScatter:
    case Function::kReduceScatterV:
      return algorithm == "direct";
    default:
      return true;
  }
}

}  // namespace hocket::test
