// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Kernels that combine straight out of and into the memory of all ranks of a call, on the caller's stream. They lie
// there from the beginning, behind a wait for a word; the executor, whose plan has all ranks meet before its steps and
// after them, lets them go when all have come and goes on when they are done. No kernel waits, so ranks may share a
// device, and the engine calls no function of CUDA's.
//
// What the host tells them, the word and perhaps addresses, lies in pinned memory. One block brings it to the device
// first: where each block of each kernel fetched it over the bus, 64 MiB of two ranks took 12.9 ms on an H200, and 2.6
// where addresses were known (docs/gpu-status.md).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/queue.h"
#include "cuda/pool.h"
#include "cuda/stream.h"
#include "execute/coded.h"
#include "kernels/cuda/batch.h"

namespace hocket {

class HeldKernels final : public SliceRunner {
 public:
  struct Launch {
    DataType type = DataType::kUint8;
    device::Batch batch = {};  // its `when` says which word lets it run
    bool is_last = false;      // put on the stream by enqueue_last()
  };

  // What the kernels use, and what is to be done, on any thread, when the call fails.
  struct Keeps {
    std::vector<std::shared_ptr<const void>> used;
    std::function<void()> on_stop;
  };
  // In a context that was entered. `told_late`: the addresses in the batches are marks
  // (late()), and tell() says what they stand for.
  static Result<std::shared_ptr<HeldKernels>> make(const cuda::Stream& stream, Engine& engine,
                                                   std::vector<Launch> launches, bool told_late, Keeps keeps = {});
  // Puts them on the stream, which keeps the object until it has passed them.
  Status enqueue() const;
  // The same of the last ones, behind the end of the call.
  Status enqueue_last() const;
  // The stream has come to them once more.
  void begin_again() noexcept;

  // Stands for what lies so far behind the beginning of a buffer that is not known yet.
  static std::byte* late(size_t buffer, size_t offset = 0);
  // Lets those kernels run that wait for this word: the buffers begin there.
  void let_go(uint32_t word, std::span<std::byte* const> buffers);
  // The stream has passed those before the last.
  bool done() const { return done_.load(std::memory_order_acquire); }

  // Plans of such calls need none.
  Result<std::byte*> scratch(size_t bytes) override;
  // All slices of the call are done together.
  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override;
  // Kernels that have not begun do nothing any more, and the stream goes on.
  void stop() override;

 private:
  struct Told {  // the same bytes, and where the device has them
    cuda::MemoryBlock here;
    cuda::MemoryBlock there;
    size_t bytes = 0;
  };
  static Result<Told> take(const cuda::Stream& stream, size_t bytes);
  HeldKernels(const cuda::Stream& stream, Engine& engine, Told told, Keeps keeps);
  Status add(const Launch& launch, unsigned multiprocessors, size_t late);
  Result<cuda::Kernel> find(DataType type, bool is_switched = false) const;
  Status bring() const;
  void set_word(uint32_t word);
  const uint32_t* word() const { return reinterpret_cast<const uint32_t*>(&word_); }

  struct Prepared {
    cuda::Kernel kernel;
    cuda::Grid grid;
    device::Batch batch;
    bool is_last;
    std::byte** late;
  };
  Status launch(bool last) const;

  const cuda::Stream stream_;
  Engine& engine_;
  const Told told_;
  std::atomic<uint32_t>& word_;  // of kernels/cuda/batch.h
  const Keeps keeps_;
  std::vector<Prepared> launches_;
  std::atomic<bool> done_{false};
};

}  // namespace hocket
