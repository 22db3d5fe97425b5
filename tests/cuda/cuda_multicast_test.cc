// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows of devices behind one address, by the stand-in's switch: ranks that have a device each, as threads and as
// processes. The same calls on the host's memory say what must come out. The values are such that no order of their
// sum is rounded, for the stand-in adds in another one than kernels do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/multicast.h"
#include "comm/multicast_launches.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/multicast.h"
#include "kernels/element.h"
#include "tests/api/ranks.h"
#include "tests/cuda/collectives.h"
#include "tests/cuda/device.h"
#include "tests/cuda/window.h"

namespace hocket::test {
namespace {

using namespace std::chrono_literals;

// ---- Values and calls

template <DataType type>
void put_numbers(size_t seed, Bytes& bytes) {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  for (size_t i = 0; i < bytes.size() / sizeof(Storage); ++i) {
    const Storage value = Element::encode(static_cast<typename Element::Wide>((i * 7 + seed * 3) % 6 + 1));
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
}

// Small numbers of the type, other ones on each rank.
Bytes numbers(hocketDataType_t type, size_t seed, size_t size) {
  Bytes bytes(size);
  switch (type) {
#define NUMBERS(of)                            \
  case hocket##of:                             \
    put_numbers<DataType::k##of>(seed, bytes); \
    break;
    NUMBERS(Int8)
    NUMBERS(Uint8)
    NUMBERS(Int32)
    NUMBERS(Uint32)
    NUMBERS(Int64)
    NUMBERS(Uint64)
    NUMBERS(Float16)
    NUMBERS(Float32)
    NUMBERS(Float64)
    NUMBERS(Bfloat16)
#undef NUMBERS
    default:
      ADD_FAILURE() << "no numbers of type " << type;
  }
  return bytes;
}

size_t bytes_of(hocketDataType_t type) { return element_bytes(static_cast<DataType>(type)); }

struct Kind {
  std::string name;
  size_t send_blocks, recv_blocks;
  size_t in_place_at;  // SIZE_MAX: never
  std::function<hocketResult_t(const void* send, void* recv, size_t count, hocketDataType_t, hocketRedOp_t,
                               hocketComm_t, hocketStream_t)>
      call;
};

std::vector<Kind> kinds(const Member& member) {
  const auto ranks = static_cast<size_t>(member.ranks), rank = static_cast<size_t>(member.rank);
  const int root = member.ranks - 1;
  return {{"all_reduce", 1, 1, 0, hocketAllReduce},
          {"reduce", 1, 1, 0,
           [=](const void* send, void* recv, size_t count, hocketDataType_t type, hocketRedOp_t op, hocketComm_t comm,
               hocketStream_t stream) { return hocketReduce(send, recv, count, type, op, root, comm, stream); }},
          {"reduce_scatter", ranks, 1, rank, hocketReduceScatter},
          {"broadcast", 1, 1, 0,
           [=](const void* send, void* recv, size_t count, hocketDataType_t type, hocketRedOp_t, hocketComm_t comm,
               hocketStream_t stream) { return hocketBroadcast(send, recv, count, type, root, comm, stream); }},
          {"all_gather", 1, ranks, rank,
           [=](const void* send, void* recv, size_t count, hocketDataType_t type, hocketRedOp_t, hocketComm_t comm,
               hocketStream_t stream) { return hocketAllGather(send, recv, count, type, comm, stream); }}};
}

struct Variant {
  hocketDataType_t type = hocketFloat;
  hocketRedOp_t op = hocketSum;
  size_t count = 1027;
  bool in_place = false;
  size_t send_shift = 0;  // bytes
  size_t recv_shift = 0;
};

// What a rank does its calls with: half of the window is for what it sends.
class Calls {
 public:
  explicit Calls(const Member& member, size_t bytes = kWindowBytes, Maker maker = Maker::kHocket)
      : member_(member), window_(std::in_place, member, maker, bytes), bytes_(bytes) {}

  void compare(const Kind& kind, const Variant& variant) {
    const size_t block = variant.count * bytes_of(variant.type);
    size_t send = 64 + variant.send_shift, recv = bytes_ / 2 + 64 + variant.recv_shift;
    if (variant.in_place && kind.recv_blocks >= kind.send_blocks) send = recv + kind.in_place_at * block;
    if (variant.in_place && kind.recv_blocks < kind.send_blocks) recv = send + kind.in_place_at * block;
    const auto call = [&](std::byte* memory, hocketStream_t stream) {
      return kind.call(memory + send, memory + recv, variant.count, variant.type, variant.op, member_.comm, stream);
    };
    Bytes host = numbers(variant.type, static_cast<size_t>(member_.rank), bytes_);
    write(host);
    ASSERT_EQ(call(host.data(), nullptr), hocketSuccess) << hocketGetLastError(member_.comm);
    ASSERT_EQ(call(window_->at(0), stream_.get()), hocketSuccess) << hocketGetLastError(member_.comm);
    EXPECT_TRUE(read() == host) << kind.name << " of " << variant.count << ", type " << variant.type << ", op "
                                << variant.op << (variant.in_place ? ", in place" : "") << ", shifted by "
                                << variant.send_shift << " and " << variant.recv_shift << ", rank " << member_.rank
                                << ": " << hocketGetLastError(member_.comm);
  }

  // Of all ranks, so many of which are threads of this process: whether all their kernels went by the switch.
  bool are_switched(int ranks_here) {
    agree(1);
    const int before = fake::switched_addresses();
    EXPECT_EQ(add(), hocketSuccess) << hocketGetLastError(member_.comm);
    stream_.synchronize();
    agree(1);
    return agree(fake::switched_addresses() - before == 2 * ranks_here ? 1 : 0);
  }
  // Makes calls until they are, or until the time is over.
  bool come_to_be_switched(int ranks_here, std::chrono::milliseconds time = 20s) {
    const auto limit = std::chrono::steady_clock::now() + time;
    while (!are_switched(ranks_here)) {
      if (testing::Test::HasFailure()) return false;
      if (agree(std::chrono::steady_clock::now() < limit ? 0 : 1, hocketMax)) return false;
    }
    return true;
  }

  hocketResult_t add() {
    return hocketAllReduce(window_->floats(), window_->floats(), 4096, hocketFloat, hocketSum, member_.comm,
                           stream_.get());
  }
  // Of rounds of add(), with ones at first.
  void expect_sums(int rounds) {
    const float sum = std::pow(static_cast<float>(member_.ranks), static_cast<float>(rounds));
    expect_all(*window_, stream_, sum, 4096);
  }
  void fill_ones() { fill(*window_, stream_, 1, 4096); }

  const DeviceStream& stream() const { return stream_; }
  std::optional<Window>& window() { return window_; }
  bool agree(int value, hocketRedOp_t op = hocketMin) {
    EXPECT_EQ(hocketAllReduce(&value, &value, 1, hocketInt, op, member_.comm, nullptr), hocketSuccess)
        << hocketGetLastError(member_.comm);
    return value != 0;
  }

 private:
  void write(const Bytes& bytes) const {
    cuMemcpyAsync(reinterpret_cast<uintptr_t>(window_->at(0)), reinterpret_cast<uintptr_t>(bytes.data()), bytes.size(),
                  stream_.handle());
    stream_.synchronize();
  }
  Bytes read() const {
    Bytes bytes(bytes_);
    cuMemcpyAsync(reinterpret_cast<uintptr_t>(bytes.data()), reinterpret_cast<uintptr_t>(window_->at(0)), bytes.size(),
                  stream_.handle());
    stream_.synchronize();
    return bytes;
  }

  const Member& member_;
  std::optional<Window> window_;
  const size_t bytes_;
  const DeviceStream stream_;
};

// ---- Every collective, type and operation

constexpr hocketDataType_t kTypes[] = {hocketInt8,   hocketUint8,   hocketInt32,   hocketUint32,  hocketInt64,
                                       hocketUint64, hocketFloat16, hocketFloat32, hocketFloat64, hocketBfloat16};

bool is_float(hocketDataType_t type) {
  return type == hocketFloat16 || type == hocketFloat32 || type == hocketFloat64 || type == hocketBfloat16;
}

void compare_everything(const Member& member, Calls& calls) {
  const std::vector<Kind> all = kinds(member);
  for (const Kind& kind : all) {
    for (const size_t count : {1u, 7u, 1027u, 9000u}) {
      for (const bool in_place : {false, true}) {
        calls.compare(kind, {.count = count, .in_place = in_place});
        calls.compare(kind, {.count = count, .in_place = in_place, .send_shift = 4, .recv_shift = 4});
      }
      calls.compare(kind, {.count = count, .send_shift = 8, .recv_shift = 4});
    }
  }
  for (const hocketDataType_t type : kTypes) {
    for (int op = hocketSum; op < (is_float(type) ? hocketBitAnd : hocketNumOps); ++op) {
      calls.compare(all[0], {.type = type, .op = static_cast<hocketRedOp_t>(op), .count = 2051, .in_place = true});
    }
    calls.compare(all[4], {.type = type});
  }
}

class CudaMulticast : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
    fake::let_loading_wait_for_all_streams();
  }
};

TEST_F(CudaMulticast, ThreadsGetTheHostsResults) {
  for (const int ranks : {2, 3, 4, 8}) {
    run_threads(ranks, [&](Member& member) {
      use_device(member.rank);
      Calls calls(member);
      EXPECT_TRUE(calls.come_to_be_switched(ranks));
      compare_everything(member, calls);
      EXPECT_TRUE(calls.are_switched(ranks));
    });
  }
}

const Role everything("everything", [](const Part& part) -> int {
  fake::let_loading_wait_for_all_streams();
  use_device(part.rank);
  const Member member = part.join();
  {
    Calls calls(member);
    EXPECT_TRUE(calls.come_to_be_switched(1));
    compare_everything(member, calls);
    EXPECT_TRUE(calls.are_switched(1));
  }
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaMulticast, SoDoProcesses) {
  for (const int ranks : {2, 3, 4, 8}) expect_success("everything", ranks, {}, Seconds(120));
}

// How many addresses of objects a call's kernels use, of all ranks.
int switched_by(const Kind& kind, const Variant& variant, Calls& calls) {
  calls.agree(1);
  const int before = fake::switched_addresses();
  calls.agree(1);
  calls.compare(kind, variant);
  calls.agree(1);
  return fake::switched_addresses() - before;
}

// Each rank of an all-reduce reads and writes through the switch; of the others one does, or each reads or writes.
TEST_F(CudaMulticast, IsTakenWhereASwitchCanDoIt) {
  run_threads(4, [](Member& member) {
    use_device(member.rank);
    Calls calls(member);
    ASSERT_TRUE(calls.come_to_be_switched(4));
    const std::vector<Kind> all = kinds(member);
    const auto expect_switched = [&](size_t kind, const Variant& variant, int addresses) {
      EXPECT_EQ(switched_by(all[kind], variant, calls), addresses)
          << all[kind].name << ", type " << variant.type << ", op " << variant.op << ", count " << variant.count;
    };
    expect_switched(0, {}, 8);
    expect_switched(0, {.in_place = true}, 8);
    expect_switched(1, {}, 1);
    expect_switched(2, {.count = 1028}, 4);
    expect_switched(3, {}, 1);
    expect_switched(3, {.in_place = true}, 1);
    expect_switched(4, {.count = 1028}, 4);
    expect_switched(4, {.count = 1028, .in_place = true}, 4);
    expect_switched(4, {.count = 1027}, 1);  // those of rank 0 alone are aligned alike
    expect_switched(0, {.op = hocketAvg}, 8);
    expect_switched(0, {.type = hocketBfloat16}, 8);
    expect_switched(0, {.type = hocketBfloat16, .op = hocketAvg}, 0);  // rounded once more
    expect_switched(0, {.op = hocketMax}, 0);                          // what becomes of NaN, is not said
    expect_switched(0, {.type = hocketInt64, .op = hocketMax}, 8);
    expect_switched(0, {.type = hocketInt8}, 0);
    expect_switched(0, {.type = hocketInt8, .op = hocketBitXor}, 8);
    expect_switched(0, {.op = hocketProd}, 0);
    expect_switched(0, {.type = hocketInt32, .op = hocketLogicalAnd}, 0);
    expect_switched(2, {.count = 3}, 0);                                       // not 16 bytes
    expect_switched(2, {.count = 1028, .send_shift = 4, .recv_shift = 8}, 0);  // not aligned alike
    expect_switched(4, {.count = 1028, .send_shift = 4, .recv_shift = 8}, 0);
    expect_switched(2, {.count = 1028, .send_shift = 4, .recv_shift = 4}, 4);
  });
}

// ---- Where it is not taken

// Whether ranks never come to be switched, though they call, and whether their results are right.
void expect_never_switched(const Member& member, Calls& calls, int ranks_here) {
  const int before = fake::switched_addresses();
  EXPECT_FALSE(calls.come_to_be_switched(ranks_here, 300ms));
  EXPECT_EQ(fake::switched_addresses(), before);
  for (const Kind& kind : kinds(member)) calls.compare(kind, {});
}

// What keeps rank 1, or all, from it.
const Role kept_from_it("kept_from_it", [](const Part& part) -> int {
  const std::string& why = part.arguments[0];
  if (why == "one is off" && part.rank == 1) setenv("HOCKET_DEVICE_MULTICAST", "off", 1);
  if (why == "all are off") setenv("HOCKET_DEVICE_MULTICAST", "off", 1);
  if (why == "no support" && part.rank == 1) fake::forbid_multicast();
  if (why == "no kernels" && part.rank == 1) fake::fail("cuLibraryLoadData", 2, 1);  // the second image's
  use_device(why == "one device" ? part.rank / 2 : part.rank);
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  if (why == "ordered") config = ordered();
  const Member member = part.join(config);
  {
    Calls calls(member);
    expect_never_switched(member, calls, 1);
  }
  EXPECT_TRUE(why != "all are off" || fake::calls_of("cuMulticastGetGranularity") == 0);
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaMulticast, IsOffOnAllWhereItIsOnOne) {
  for (const char* why : {"one is off", "all are off", "no support", "no kernels", "one device", "ordered"}) {
    SCOPED_TRACE(why);
    Processes::Settings settings;
    settings.arguments = {why};
    expect_success("kept_from_it", 3, settings, Seconds(60));
  }
}

// Memory of cudaMalloc, which the driver does not bind.
TEST_F(CudaMulticast, IsForMemoryOfOurMaking) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    Calls calls(member, kWindowBytes, Maker::kCuda);
    expect_never_switched(member, calls, 2);
  });
}

// Parts that lie at different places of their allocations.
TEST_F(CudaMulticast, IsForPartsAtOneOffset) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    void *memory = nullptr, *handle = nullptr;
    ASSERT_EQ(hocketMemAllocDevice(&memory, kWindowBytes), hocketSuccess);
    std::byte* const begin = static_cast<std::byte*>(memory) + 4096 * member.rank;
    ASSERT_EQ(hocketCommRegister(member.comm, begin, 65536, &handle), hocketSuccess);
    const DeviceStream stream;
    const int before = fake::switched_addresses();
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(hocketAllReduce(begin, begin, 4096, hocketFloat, hocketSum, member.comm, stream.get()), hocketSuccess)
          << hocketGetLastError(member.comm);
      stream.synchronize();
    }
    EXPECT_EQ(fake::switched_addresses(), before);
    EXPECT_EQ(hocketCommDeregister(member.comm, handle), hocketSuccess);
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  });
}

// ---- Failures of the driver

// The functions of one rank fail once the ranks have mapped each other's memory: a captured call maps, and sets up
// nothing.
const Role refusing("refusing", [](const Part& part) -> int {
  use_device(part.rank);
  const Member member = part.join();
  {
    Calls calls(member);
    const Captured graph(calls.stream(), [&] { EXPECT_EQ(calls.add(), hocketSuccess); });
    calls.agree(1);
    if (part.rank == std::stoi(part.arguments[1])) fake::fail(part.arguments[0], 2);
    expect_never_switched(member, calls, 1);
    fake::fail("", cuda::kSuccess);
    EXPECT_EQ(fake::calls_of("cuMulticastBindMem") - fake::calls_of("cuMulticastUnbind") > 0,
              part.arguments[0] == "cuMulticastBindMem" && part.rank == std::stoi(part.arguments[1]));
  }
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaMulticast, ARefusalOfTheDriverTurnsItOffForAll) {
  const std::vector<std::string> of_any = {"cuMulticastAddDevice", "cuMulticastBindMem", "cuMemAddressReserve",
                                           "cuMemMap", "cuMemSetAccess"};
  Processes::Settings settings;
  for (const std::string& function : of_any) {
    for (const char* rank : {"0", "1"}) {
      SCOPED_TRACE(function + " of rank " + rank);
      settings.arguments = {function, rank};
      expect_success("refusing", 3, settings, Seconds(60));
    }
  }
  for (const auto& [function, rank] :
       {std::pair("cuMulticastCreate", "0"), std::pair("cuMulticastGetGranularity", "0"),
        std::pair("cuMemExportToShareableHandle", "0"), std::pair("cuMemImportFromShareableHandle", "2")}) {
    SCOPED_TRACE(function);
    settings.arguments = {function, rank};
    expect_success("refusing", 3, settings, Seconds(60));
  }
}

// ---- Graphs, and the end of windows

TEST_F(CudaMulticast, GraphsKeepWhatTheyWereCapturedWith) {
  const int objects = fake::calls_of("cuMulticastCreate");
  run_threads(3, [objects](Member& member) {
    use_device(member.rank);
    Calls calls(member);
    const auto capture = [&] {
      return std::make_unique<Captured>(calls.stream(), [&] { EXPECT_EQ(calls.add(), hocketSuccess); });
    };
    const auto switched_in = [&](const Captured& graph) {
      calls.fill_ones();
      calls.agree(1);
      const int before = fake::switched_addresses();
      calls.agree(1);
      for (int i = 0; i < 3; ++i) graph.launch(calls.stream());
      calls.expect_sums(3);
      calls.agree(1);
      return fake::switched_addresses() - before;
    };
    const auto early = capture();
    EXPECT_EQ(switched_in(*early), 0);
    EXPECT_EQ(fake::calls_of("cuMulticastCreate"), objects) << "a captured call must not set it up";
    ASSERT_TRUE(calls.come_to_be_switched(3));
    const auto late = capture();
    EXPECT_EQ(switched_in(*early), 0);
    EXPECT_EQ(switched_in(*late), 3 * 6);
  });
}

// Of a window that is closed nothing is left; the next one gets an object of its own.
const Role closing("closing_multicast", [](const Part& part) -> int {
  use_device(part.rank);
  const Member member = part.join();
  for (int round = 1; round <= 3; ++round) {
    Calls calls(member);
    EXPECT_TRUE(calls.come_to_be_switched(1));
    EXPECT_EQ(fake::calls_of("cuMulticastBindMem"), round);
    EXPECT_EQ(calls.agree(1), true);
    calls.window().reset();
    // Until a later call finds that the stream has passed the kernels, they may be there.
    const DeviceValues values(10);
    EXPECT_EQ(
        hocketAllReduce(values.get(), values.get(), 10, hocketFloat, hocketSum, member.comm, calls.stream().get()),
        hocketSuccess);
    calls.stream().synchronize();
    EXPECT_EQ(fake::calls_of("cuMulticastUnbind"), round);
  }
  EXPECT_EQ(fake::calls_of("cuMulticastCreate"), part.rank == 0 ? 3 : 0);
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaMulticast, WindowsAreClosedAndMadeAgain) { expect_success("closing_multicast", 3, {}, Seconds(60)); }

// A rank dies in a call: the others hear of it, their streams go on, and their memory stays bound, since nobody knows
// whose kernels still use it.
const Role dying("dying_multicast", [](const Part& part) -> int {
  use_device(part.rank);
  const Member member = part.join();
  auto* const calls = new Calls(member);
  EXPECT_TRUE(calls->come_to_be_switched(1));
  calls->fill_ones();
  EXPECT_EQ(calls->add(), hocketSuccess);
  calls->expect_sums(1);
  calls->agree(1);
  if (part.rank == 1) {
    calls->stream().run([] {
      std::this_thread::sleep_for(300ms);
      std::_Exit(0);
    });
    calls->add();
    std::this_thread::sleep_for(30s);
    return 1;
  }
  EXPECT_EQ(calls->add(), hocketSuccess);
  calls->expect_sums(1);
  hocketResult_t state = hocketSuccess;
  hocketCommGetAsyncError(member.comm, &state);
  EXPECT_EQ(state, hocketRemoteError) << hocketGetLastError(member.comm);
  calls->window()->close();
  calls->window()->free();
  // Those who go on find that the streams have passed the failed call, and let go of all that it used.
  hocketComm_t fewer = nullptr;
  EXPECT_EQ(hocketCommShrink(member.comm, nullptr, 0, &fewer, nullptr, HOCKET_SHRINK_DEFAULT), hocketSuccess)
      << hocketGetLastError(member.comm);
  const DeviceValues values(10);
  EXPECT_EQ(hocketAllReduce(values.get(), values.get(), 10, hocketFloat, hocketSum, fewer, calls->stream().get()),
            hocketSuccess)
      << hocketGetLastError(fewer);
  calls->stream().synchronize();
  hocketCommAbort(member.comm);
  EXPECT_EQ(fake::calls_of("cuMulticastUnbind"), 0);
  EXPECT_GT(fake::calls_of("cuMemUnmap"), 0);
  std::fflush(stdout);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
});

TEST_F(CudaMulticast, APeerThatDiesIsTold) { expect_success("dying_multicast", 3, {}, Seconds(60)); }

// ---- Who counts the answers

using Heard = MulticastWindow::Heard;

TEST(MulticastWindow, ComesToBeInTwoRounds) {
  MulticastWindow window(0);
  EXPECT_TRUE(window.set_up(2));
  EXPECT_FALSE(window.set_up(2));
  EXPECT_EQ(window.hear(1, true), Heard::kNotAll);
  EXPECT_EQ(window.hear(1, true), Heard::kTwice);
  EXPECT_EQ(window.hear(0, true), Heard::kJoined);
  EXPECT_EQ(window.hear(0, true), Heard::kNotAll);
  EXPECT_EQ(window.hear(1, true), Heard::kBound);
  EXPECT_EQ(window.hear(1, true), Heard::kTwice);
  EXPECT_EQ(window.begin(), nullptr) << "there is no object";
}

TEST(MulticastWindow, OneRefusalIsEnough) {
  MulticastWindow window(0);
  EXPECT_EQ(window.hear(1, true), Heard::kTwice) << "nobody has asked";
  EXPECT_TRUE(window.set_up(3));
  EXPECT_EQ(window.hear(1, true), Heard::kNotAll);
  EXPECT_EQ(window.hear(2, false), Heard::kRefused);
  window.turn_off();
  EXPECT_EQ(window.hear(0, true), Heard::kNothing);
  EXPECT_FALSE(window.set_up(3));
}

}  // namespace
}  // namespace hocket::test
