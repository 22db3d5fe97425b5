// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One call as the user made it, after the arguments were checked; and its description, which errors and peers show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "codec/codec.h"
#include "codec/traffic.h"
#include "comm/mesh_windows.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

namespace hocket {

class SliceRunner;

// What an operation handle stands for. The handle itself is equal on all ranks.
struct Reduction {
  int32_t handle = 0;
  ReduceOp op = ReduceOp::kSum;
  bool average = false;
  bool scaled = false;  // pre-multiplied sum
  DataType scalar_type = DataType::kFloat32;
  alignas(8) std::byte scalar[8] = {};
  const void* scalar_elsewhere = nullptr;  // not null: it lies there when the call begins
  UserFunction user = nullptr;
  void* user_context = nullptr;
  std::shared_ptr<const void> keeps;  // what user_context points to
  bool commutative = true;
};

// A call as its caller wrote it, but for the buffers and what a v-form lists.
struct CallArguments {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kUint8;
  bool sending = false;  // point to point
  int32_t op = 0;        // handle; reductions only
  Rank root = 0;         // rooted collectives
  Rank peer = -1;        // point to point
  uint64_t count = 0;    // v-forms: 0
  uint32_t coding = 0;   // digest of the codec's specification; 0: no codec
  friend bool operator==(const CallArguments&, const CallArguments&) = default;
};

inline bool is_transfer(const CallArguments& call) { return call.collective == Collective::kSendRecv; }

// What all ranks must agree on, and what is told of a call: plain data.
struct CallFacts : CallArguments {
  bool v_form = false;
  uint64_t total = 0;                                        // v-forms whose counts every rank lists: their sum ...
  uint32_t parts = 0;                                        // ... and digest
  bool encodes = false;                                      // false: with a codec, too, messages carry the values
  Reproducibility reproducibility = Reproducibility::kFast;  // of floats and users' operations
  bool own = false;        // the library's own call: no wish of the user's decides how
  WindowSpot send_spot{};  // where the buffers are, if a plan may reach into those of peers
  WindowSpot recv_spot{};
  bool on_device = false;    // they are memory of devices, there or elsewhere, on which kernels do a joint plan
  bool low_latency = false;  // ... or one kernel for each rank, by packets
  friend bool operator==(const CallFacts&, const CallFacts&) = default;
};

// The arguments and the communicator say all, but for windows.
bool follow_from_arguments(CallFacts facts);
inline bool is_in_window(const CallFacts& facts) { return facts.send_spot.window != 0 || facts.recv_spot.window != 0; }
// Peers work on its buffers.
inline bool is_reached(const CallFacts& facts) { return is_in_window(facts) || facts.on_device; }

// "all_reduce(count 1000, float32, sum)".
std::string describe(const CallFacts& facts);
// Notes the counts of a v-form that every rank lists.
void note_parts(const std::vector<size_t>& counts, CallFacts& facts);
// Floats are summed in accumulators. What a codec rounds is never exact.
inline bool is_exact(const CallFacts& facts) {
  return facts.reproducibility == Reproducibility::kExact && !facts.encodes;
}
// "sum", "op 65" for created ones.
std::string op_name(int32_t handle);

struct Request {
  Request() = default;
  Request(const CallArguments& arguments, const void* send_in, void* recv_in)
      : facts{arguments}, send(send_in), recv(recv_in) {}

  CallFacts facts;
  const void* send = nullptr;
  void* recv = nullptr;
  Reduction reduction;
  std::shared_ptr<const Codec> codec;  // null: messages carry the values
  uint64_t draw = 0;                   // for the codec's random choices
  bool lendable = true;                // other processes may read the buffers where the system lets them
  std::shared_ptr<CodedTraffic> traffic;
  float* losses = nullptr;              // of a sum that blocks: what encodings lose of each element sent is added here
  std::shared_ptr<SliceRunner> runner;  // of device memory that kernels work on; null: the host does
  bool told = false;                    // ranks have told each other where their buffers are, or need not
  const CallFacts* precedes = nullptr;  // it is part of the call that comes next, and bears its name; null: it is not
  // V-forms: per rank, in elements; empty where this rank does not know or need them.
  std::vector<size_t> send_counts, send_offsets, recv_counts, recv_offsets;
};

}  // namespace hocket
