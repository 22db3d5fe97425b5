// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows of device memory: ranks in several processes, or threads, combine straight in each other's memory. The same
// calls on the host's memory say what must come out, to the last bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <utility>

#include "hocket/device.h"
#include "kernels/cuda/image.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/collectives.h"
#include "tests/cuda/device.h"
#include "tests/cuda/window.h"

namespace hocket::test {
namespace {

constexpr size_t kWindowBytes = size_t{1} << 20;

// ---- Every collective

void compare_all(const Member& member, Maker maker, bool staged) {
  const Window window(member, maker);
  Comparison comparison(member, window.at(0), kWindowBytes);
  comparison.compare_all();
  EXPECT_EQ(comparison.copies() > 0, staged);
  EXPECT_EQ(comparison.launches() == 0, staged);
}

// Who made the memory, how many devices, and whether they reach each other.
const Role all_collectives("all_collectives", [](const Part& part) -> int {
  const Maker maker = part.arguments[0] == "cuda" ? Maker::kCuda : Maker::kHocket;
  const bool apart = part.arguments[2] == "apart";
  if (apart) fake::forbid_peer_access();
  use_device(part.rank % std::stoi(part.arguments[1]));
  const Member member = part.join(ordered());
  compare_all(member, maker, apart);
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

class CudaWindows : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
    fake::let_loading_wait_for_all_streams();
  }
};

void run_all_collectives(int ranks, const std::vector<std::string>& arguments) {
  Processes::Settings settings;
  settings.arguments = arguments;
  settings.environment = {"HOCKET_DEVICE_PEERS=on"};  // gather and scatter go by what serves memory of no window
  expect_success("all_collectives", ranks, settings, Seconds(60));
}

TEST_F(CudaWindows, ProcessesOnOneDeviceGiveTheBitsOfTheHost) {
  for (const int ranks : {2, 3}) run_all_collectives(ranks, {"cuda", "1", "near"});
  run_all_collectives(3, {"hocket", "1", "near"});
}

TEST_F(CudaWindows, SoDoThoseOnSeveral) {
  run_all_collectives(4, {"cuda", "2", "near"});
  run_all_collectives(3, {"hocket", "2", "near"});
}

TEST_F(CudaWindows, DevicesThatDoNotReachEachOtherAreStaged) { run_all_collectives(2, {"hocket", "2", "apart"}); }

TEST_F(CudaWindows, SoDoThreads) {
  const int before = fake::calls_of("cuLaunchKernel");
  for (const Maker maker : {Maker::kCuda, Maker::kHocket}) {
    run_threads(
        3,
        [&](Member& member) {
          use_device(member.rank % 2);
          const Window window(member, maker);
          Comparison comparison(member, window.at(0), kWindowBytes);
          for (const Shape& shape : shapes(member)) comparison.compare(shape, 1027, false);
        },
        ordered());
  }
  EXPECT_GT(fake::calls_of("cuLaunchKernel"), before);
}

// ---- Order, graphs, several windows

constexpr size_t kCount = 1000;

hocketResult_t add(float* values, const Member& member, hocketStream_t stream) {
  return hocketAllReduce(values, values, kCount, hocketFloat, hocketSum, member.comm, stream);
}

void fill(const Window& window, const DeviceStream& stream, float value) { fill(window, stream, value, kCount); }

void expect_all(const Window& window, const DeviceStream& stream, float value) {
  expect_all(window, stream, value, kCount);
}

// Each call sees what its stream did before, and the calls of two streams run in the order in which they were issued.
TEST_F(CudaWindows, CallsAreInTheOrderOfTheirStreams) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const Window first(member, Maker::kCuda);
    const Window second(member, Maker::kHocket);
    const DeviceStream stream, other;
    if (member.rank == 1) stream.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    fill(first, stream, 1);
    fill(second, other, 1);
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(add(first.floats(), member, stream.get()), hocketSuccess) << hocketGetLastError(member.comm);
      ASSERT_EQ(add(second.floats(), member, other.get()), hocketSuccess);
    }
    expect_all(first, stream, 1024);
    expect_all(second, other, 1024);
  });
}

TEST_F(CudaWindows, AGroupOfSeveralCalls) {
  run_threads(3, [](Member& member) {
    use_device(0);
    const Window first(member, Maker::kHocket);
    const Window second(member, Maker::kCuda);
    const DeviceStream stream;
    fill(first, stream, 1);
    fill(second, stream, 2);
    hocketGroupStart();
    add(first.floats(), member, stream.get());
    add(second.floats(), member, stream.get());
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    expect_all(first, stream, 3);
    expect_all(second, stream, 6);
  });
}

TEST_F(CudaWindows, GraphsMakeTheCallEachTimeTheyRun) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const Window window(member, Maker::kHocket);
    const DeviceStream stream;
    const Captured graph(stream, [&] {
      EXPECT_EQ(add(window.floats(), member, stream.get()), hocketSuccess) << hocketGetLastError(member.comm);
    });
    fill(window, stream, 1);
    for (int i = 0; i < 5; ++i) graph.launch(stream);
    expect_all(window, stream, 32);
  });
}

// Each rank has a call of one type wait for the others on the device when it issues one of another type.
TEST_F(CudaWindows, CallsOfSeveralTypesAreUnderWayOnOneDevice) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const Window window(member, Maker::kHocket);
    const DeviceStream stream;
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (const hocketDataType_t type : {hocketFloat16, hocketUint64, hocketInt8}) {
      EXPECT_EQ(hocketAllReduce(window.at(0), window.at(0), kCount, type, hocketMax, member.comm, stream.get()),
                hocketSuccess)
          << hocketGetLastError(member.comm);
    }
    stream.synchronize();
  });
}

// What no kernel does, or not in windows, is staged.
TEST_F(CudaWindows, OtherCallsAreMadeAsBefore) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const Window window(member, Maker::kHocket);
    const DeviceStream stream;
    const DeviceValues outside(kCount);
    fill(window, stream, 3);
    EXPECT_EQ(hocketScan(window.floats(), window.floats(), kCount, hocketFloat, hocketSum, member.comm, stream.get()),
              hocketSuccess);
    expect_all(window, stream, member.rank == 0 ? 3 : 6);
    fill(window, stream, 3);
    EXPECT_EQ(
        hocketAllReduce(window.floats(), outside.get(), kCount, hocketFloat, hocketSum, member.comm, stream.get()),
        hocketSuccess);
    EXPECT_EQ(outside.read(stream), std::vector<float>(kCount, 6));
  });
}

// A window whose parts are not all of devices is none.
TEST_F(CudaWindows, OneRankMayBringMemoryOfTheHost) {
  run_threads(2, [](Member& member) {
    use_device(0);
    void *memory = nullptr, *handle = nullptr;
    const size_t bytes = kCount * sizeof(float);
    ASSERT_EQ(member.rank == 0 ? hocketMemAlloc(&memory, bytes) : hocketMemAllocDevice(&memory, bytes), hocketSuccess);
    ASSERT_EQ(hocketCommRegister(member.comm, memory, bytes, &handle), hocketSuccess);
    auto* const inside = static_cast<float*>(fake::memory_of(reinterpret_cast<uintptr_t>(memory)));
    std::fill_n(inside, kCount, 4.0f);
    const DeviceStream stream;
    ASSERT_EQ(add(static_cast<float*>(memory), member, member.rank == 0 ? nullptr : stream.get()), hocketSuccess)
        << hocketGetLastError(member.comm);
    stream.synchronize();
    EXPECT_EQ(inside[kCount - 1], 8);
    EXPECT_EQ(hocketCommDeregister(member.comm, handle), hocketSuccess);
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  });
}

// Two windows in one allocation are opened once, and closed when the last is.
const Role closing("closing", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream stream;
  {
    Window window(member, Maker::kCuda);
    void* part_of_it = nullptr;
    EXPECT_EQ(hocketCommRegister(member.comm, window.at(4096), 4096, &part_of_it), hocketSuccess);
    fill(window, stream, 1);
    EXPECT_EQ(add(window.floats(), member, stream.get()), hocketSuccess) << hocketGetLastError(member.comm);
    expect_all(window, stream, 2);
    EXPECT_EQ(fake::calls_of("cuIpcOpenMemHandle"), 1);
    EXPECT_EQ(fake::calls_of("cuIpcCloseMemHandle"), 0);
    EXPECT_EQ(hocketCommDeregister(member.comm, part_of_it), hocketSuccess);
  }
  // Until a later call finds that the stream has passed the kernels, they may be there.
  const DeviceValues values(kCount);
  EXPECT_EQ(add(values.get(), member, stream.get()), hocketSuccess);
  EXPECT_EQ(fake::calls_of("cuIpcCloseMemHandle"), 1);
  stream.synchronize();
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaWindows, AreClosedAtTheEnd) { expect_success("closing", 2, {}, Seconds(60)); }

// A graph keeps what its kernels use, and the driver tells of the graph's end where it must not be called.
const Role graph_ending("graph_ending", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream stream;
  {
    Window window(member, Maker::kCuda);
    const Captured graph(stream, [&] { EXPECT_EQ(add(window.floats(), member, stream.get()), hocketSuccess); });
    fill(window, stream, 1);
    graph.launch(stream);
    expect_all(window, stream, 2);
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    window.close();
    EXPECT_EQ(fake::calls_of("cuIpcCloseMemHandle"), 0);
  }
  const DeviceValues values(kCount);
  EXPECT_EQ(add(values.get(), member, stream.get()), hocketSuccess);
  EXPECT_EQ(fake::calls_of("cuIpcCloseMemHandle"), 1);
  stream.synchronize();
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaWindows, OfAGraphAreClosedAfterItsEnd) { expect_success("graph_ending", 2, {}, Seconds(30)); }

// ---- From within kernels

// The view as a kernel of the stand-in's has it.
hocketDeviceWindow_t inside_of(hocketDeviceWindow_t view) {
  for (int rank = 0; rank < view.ranks; ++rank) {
    view.part[rank] = static_cast<char*>(fake::memory_of(reinterpret_cast<uintptr_t>(view.part[rank])));
  }
  return view;
}

// Each rank puts its values into the next one's part, signals, and gets back what that one has then.
const Role exchanging("exchanging", [](const Part& part) -> int {
  use_device(part.rank % 2);
  const Member member = part.join();
  {
    void* memory = nullptr;
    hocketWindow_t window = nullptr;
    EXPECT_EQ(hocketMemAllocDevice(&memory, kWindowBytes), hocketSuccess);
    EXPECT_EQ(hocketCommWindowRegister(member.comm, memory, kWindowBytes, &window, 0), hocketSuccess);
    hocketDeviceWindow_t outside;
    EXPECT_EQ(hocketWinGetDevice(member.comm, window, &outside), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(outside.part[member.rank], memory);
    EXPECT_EQ(outside.bytes, kWindowBytes);
    const hocketDeviceWindow_t view = inside_of(outside);
    const int next = (member.rank + 1) % member.ranks;
    const int before = (member.rank + member.ranks - 1) % member.ranks;
    const DeviceStream stream;
    for (const size_t offset : {size_t{64}, size_t{4099}}) {  // aligned, and not
      constexpr size_t kBytes = 1003, kThreads = 7;
      const size_t signal = offset == 64 ? 0 : 8;
      stream.run([&, offset, signal] {
        alignas(16) char mine[kBytes], back[kBytes] = {};
        std::memset(mine, 'a' + member.rank, kBytes);
        for (size_t thread = 0; thread < kThreads; ++thread) {
          hocketDevicePut(view, next, offset, mine, kBytes, thread, kThreads);
        }
        hocketDeviceSignal(view, next, signal);
        hocketDeviceAwaitSignal(view, signal, 1);
        const char* const got = view.part[member.rank] + offset;
        EXPECT_EQ(std::string(got, kBytes), std::string(kBytes, static_cast<char>('a' + before)));
        for (size_t thread = 0; thread < kThreads; ++thread) {
          hocketDeviceGet(view, next, offset, back, kBytes, thread, kThreads);
        }
        EXPECT_EQ(std::memcmp(back, mine, kBytes), 0);
        EXPECT_EQ(hocketDeviceReadSignal(view, signal), 1u);
      });
      stream.synchronize();
    }
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    EXPECT_EQ(hocketCommWindowDeregister(member.comm, window), hocketSuccess);
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  }
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaWindows, KernelsPutGetAndSignal) { expect_success("exchanging", 3, {}, Seconds(60)); }

TEST_F(CudaWindows, OnlyWindowsOfDevicesAreSeenByKernels) {
  run_threads(1, [](Member& member) {
    use_device(0);
    void *memory = nullptr, *host = nullptr;
    hocketWindow_t window = nullptr, of_host = nullptr;
    ASSERT_EQ(hocketMemAllocDevice(&memory, 4096), hocketSuccess);
    ASSERT_EQ(hocketMemAlloc(&host, 4096), hocketSuccess);
    ASSERT_EQ(hocketCommWindowRegister(member.comm, memory, 4096, &window, 0), hocketSuccess);
    ASSERT_EQ(hocketCommWindowRegister(member.comm, host, 4096, &of_host, 0), hocketSuccess);
    hocketDeviceWindow_t view;
    expect_error(hocketWinGetDevice(member.comm, of_host, &view), hocketInvalidUsage, member.comm, {"win: window 2"});
    expect_error(hocketWinGetDevice(member.comm, nullptr, &view), hocketInvalidArgument, member.comm, {"win"});
    expect_error(hocketWinGetDevice(member.comm, window, nullptr), hocketInvalidArgument, member.comm, {"view"});
    use_device(-1);
    expect_error(hocketWinGetDevice(member.comm, window, &view), hocketInvalidUsage, member.comm, {"no CUDA device"});
    use_device(0);
    EXPECT_EQ(hocketWinGetDevice(member.comm, window, &view), hocketSuccess);
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
    EXPECT_EQ(hocketMemFree(host), hocketSuccess);
  });
}

// A window that lies in another one is awaited itself.
TEST_F(CudaWindows, AWindowWithinAnotherIsSeenWhenAllHaveRegisteredIt) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const Window whole(member, Maker::kHocket);
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    hocketWindow_t window = nullptr;
    EXPECT_EQ(hocketCommWindowRegister(member.comm, whole.at(4096), 4096, &window, 0), hocketSuccess);
    hocketDeviceWindow_t view;
    ASSERT_EQ(hocketWinGetDevice(member.comm, window, &view), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(view.bytes, 4096u);
    EXPECT_EQ(view.part[member.rank], reinterpret_cast<char*>(whole.at(4096)));
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    EXPECT_EQ(hocketCommWindowDeregister(member.comm, window), hocketSuccess);
  });
}

// ---- Mistakes and failures

// What is mapped is mapped for the device of the window: another one must not come first.
TEST_F(CudaWindows, AreOfOneDeviceOnEachRank) {
  run_threads(2, [](Member& member) {
    use_device(0);
    void* memory = nullptr;
    hocketWindow_t window = nullptr;
    ASSERT_EQ(hocketMemAllocDevice(&memory, kWindowBytes), hocketSuccess);
    ASSERT_EQ(hocketCommWindowRegister(member.comm, memory, kWindowBytes, &window, 0), hocketSuccess);
    const DeviceStream stream;
    use_device(1);
    hocketDeviceWindow_t view;
    expect_error(hocketWinGetDevice(member.comm, window, &view), hocketInvalidArgument, member.comm,
                 {"device 1 is used, but window 1 is memory of device 0"});
    use_device(0);
    EXPECT_EQ(hocketWinGetDevice(member.comm, window, &view), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(add(static_cast<float*>(memory), member, stream.get()), hocketSuccess);
    stream.synchronize();
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(hocketCommWindowDeregister(member.comm, window), hocketSuccess);
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  });
}

TEST_F(CudaWindows, MistakesAreToldByName) {
  run_threads(1, [](Member& member) {
    use_device(0);
    void *memory = nullptr, *handle = nullptr;
    expect_error(hocketMemAllocDevice(nullptr, 8), hocketInvalidArgument, nullptr, {"ptr"});
    expect_error(hocketMemAllocDevice(&memory, 0), hocketInvalidArgument, nullptr, {"size is 0"});
    expect_error(hocketMemAllocDevice(&memory, SIZE_MAX), hocketInvalidArgument, nullptr, {"too many"});
    use_device(-1);
    expect_error(hocketMemAllocDevice(&memory, 8), hocketInvalidUsage, nullptr, {"no CUDA device"});
    use_device(0);
    const DeviceValues values(kCount);
    expect_error(hocketCommRegister(member.comm, values.get() + 10, kCount * sizeof(float), &handle),
                 hocketInvalidArgument, member.comm, {"size: 4000 bytes", "ends after 3960"});
  });
}

// The driver gives the address again for other memory: the window is still the old one's.
TEST_F(CudaWindows, MemoryThatWasFreedAndTakenAnewIsFound) {
  std::latch tried(1);
  run_threads(2, [&tried](Member& member) {
    use_device(0);
    const DeviceStream stream;
    Window window(member, Maker::kCuda, 4096);
    if (member.rank == 1) return tried.wait();  // its part stays registered until then
    float* const address = window.floats();
    fake::take_anew(address);
    expect_error(add(address, member, stream.get()), hocketInvalidArgument, member.comm,
                 {"was freed, but it is still registered as window 1"});
    window.free();
    expect_error(add(address, member, stream.get()), hocketInvalidArgument, member.comm, {"sendbuff", "freed"});
    tried.count_down();
  });
}

TEST_F(CudaWindows, OneSidedCallsAndOtherOffsetsAreRefused) {
  std::atomic<int> errors{0};
  run_threads(2, [&](Member& member) {
    use_device(0);
    const DeviceStream stream;
    void* memory = nullptr;
    hocketWindow_t window = nullptr;
    ASSERT_EQ(hocketMemAllocDevice(&memory, 8192), hocketSuccess);
    ASSERT_EQ(hocketCommWindowRegister(member.comm, memory, 8192, &window, 0), hocketSuccess);
    void* found = nullptr;
    EXPECT_EQ(hocketWinGetUserPtr(member.comm, window, &found), hocketSuccess);
    EXPECT_EQ(found, memory);
    float value = 0;
    expect_error(hocketPut(&value, 1, hocketFloat, 1 - member.rank, window, 0, member.comm, nullptr),
                 hocketInvalidArgument, member.comm, {"memory of a device"});
    float* const values = static_cast<float*>(memory) + member.rank;
    const hocketResult_t issued = add(values, member, stream.get());
    stream.synchronize();
    hocketResult_t state = hocketSuccess;
    hocketCommGetAsyncError(member.comm, &state);
    EXPECT_EQ(issued, hocketSuccess);
    EXPECT_EQ(state, hocketInvalidUsage) << hocketGetLastError(member.comm);
    ++errors;
    hocketCommAbort(std::exchange(member.comm, nullptr));
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  });
  EXPECT_EQ(errors, 2);
}

hocketResult_t state_of(const Member& member) {
  hocketResult_t state = hocketSuccess;
  hocketCommGetAsyncError(member.comm, &state);
  return state;
}

void await_failure(const Member& member) {
  const auto is_well = [&] { return state_of(member) == hocketSuccess || state_of(member) == hocketInProgress; };
  while (is_well()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The handle of rank 1's part cannot be opened: both ranks hear of it.
const Role refused("refused", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const Window* const window = new Window(member, Maker::kCuda);
  const DeviceStream* const stream = new DeviceStream;
  if (part.rank == 0) fake::fail("cuIpcOpenMemHandle", 2);
  const hocketResult_t issued = add(window->floats(), member, stream->get());
  await_failure(member);
  stream->synchronize();
  EXPECT_TRUE(issued != hocketSuccess || part.rank == 1) << "rank 1 may have heard of it before it called";
  EXPECT_THAT(hocketGetLastError(member.comm),
              testing::HasSubstr("rank 0 cannot map rank 1's part of window 1: cuIpcOpenMemHandle"));
  std::fflush(stdout);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
});

TEST_F(CudaWindows, AHandleThatIsRefusedIsToldToAll) { expect_success("refused", 2, {}, Seconds(60)); }

// Rank 1 dies in the call: the stream of rank 0 goes on, an error says why, and nothing was written to its memory.
const Role dying("dying", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const Window* const window = new Window(member, part.arguments[0] == "cuda" ? Maker::kCuda : Maker::kHocket);
  const DeviceStream* const stream = new DeviceStream;
  fill(*window, *stream, 1);
  EXPECT_EQ(add(window->floats(), member, stream->get()), hocketSuccess);
  expect_all(*window, *stream, 2);
  if (part.rank == 1) {
    stream->run([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::_Exit(0);
    });
    add(window->floats(), member, stream->get());
    std::this_thread::sleep_for(std::chrono::seconds(30));
    return 1;
  }
  EXPECT_EQ(add(window->floats(), member, stream->get()), hocketSuccess);
  expect_all(*window, *stream, 2);
  EXPECT_EQ(state_of(member), hocketRemoteError) << hocketGetLastError(member.comm);
  std::fflush(stdout);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
});

TEST_F(CudaWindows, APeerThatDiesIsTold) {
  for (const char* maker : {"cuda", "hocket"}) {
    Processes::Settings settings;
    settings.arguments = {maker};
    expect_success("dying", 2, settings, Seconds(60));
  }
}

// The device of rank 1 breaks when its stream has come to the call, and before rank 0 has: both hear of it in time.
const Role breaking("breaking_kernel", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const Window* const window = new Window(member, Maker::kHocket);
  const DeviceStream* const stream = new DeviceStream;
  const DeviceStream* const other = new DeviceStream;
  EXPECT_EQ(add(window->floats(), member, stream->get()), hocketSuccess);
  stream->synchronize();
  if (part.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  add(window->floats(), member, stream->get());
  if (part.rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    other->run([] { fake::break_device(0); });
  }
  await_failure(member);
  const hocketResult_t state = state_of(member);
  EXPECT_TRUE(state == hocketUnhandledCudaError || (part.rank == 0 && state == hocketRemoteError)) << state;
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
});

TEST_F(CudaWindows, ADeviceThatBreaksIsTold) { expect_success("breaking_kernel", 2, {}, Seconds(60)); }

// Over sockets a peer's service thread would do it, which does not reach the memory either.
const Role put_over_sockets("put_over_sockets", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  {
    const Window window(member, part.arguments[0] == "cuda" ? Maker::kCuda : Maker::kHocket);
    hocketWindow_t same = nullptr;
    EXPECT_EQ(hocketCommWindowRegister(member.comm, window.at(0), kWindowBytes, &same, 0), hocketSuccess);
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    const float value = 1;
    for (const int peer : {1 - part.rank, part.rank}) {
      EXPECT_EQ(hocketPut(&value, 1, hocketFloat, peer, same, 0, member.comm, nullptr), hocketInvalidArgument) << peer;
    }
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    EXPECT_EQ(hocketCommWindowDeregister(member.comm, same), hocketSuccess);
  }
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaWindows, PutsOverSocketsAreRefused) {
  for (const char* maker : {"cuda", "hocket"}) {
    Processes::Settings settings;
    settings.environment = {"HOCKET_TRANSPORTS=tcp"};
    settings.arguments = {maker};
    expect_success("put_over_sockets", 2, settings, Seconds(60));
  }
}

}  // namespace
}  // namespace hocket::test
