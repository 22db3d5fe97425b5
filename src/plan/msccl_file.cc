// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/msccl_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/xml.h"
#include "plan/check.h"
#include "plan/msccl.h"

namespace hocket::msccl {
namespace {

constexpr std::array<std::string_view, 9> kActions = {"s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re", "nop"};
constexpr int64_t kMaxBlocks = 1024;  // of a GPU
constexpr int64_t kMaxChannel = 1023;
constexpr size_t kMaxName = 40;

// Reads attributes of one element; the first failure stays.
class Attributes {
 public:
  explicit Attributes(const XmlElement& element) : element_(element) {}

  int32_t integer(std::string_view name, int64_t low, int64_t high) {
    const Result<int64_t> value = element_.integer(name, low, high);
    if (!value.ok() && status_.ok()) status_ = value.status();
    return value.ok() ? static_cast<int32_t>(*value) : 0;
  }

  std::string text(std::string_view name) {
    const Result<std::string> value = element_.text_of(name);
    if (!value.ok() && status_.ok()) status_ = value.status();
    return value.ok() ? *value : std::string();
  }

  void refuse(std::string_view reason) {
    if (status_.ok()) status_ = element_.fault(reason);
  }

  const Status& status() const { return status_; }

 private:
  const XmlElement& element_;
  Status status_;
};

Buffer buffer_of(Attributes& attributes, std::string_view name) {
  const std::string word = attributes.text(name);
  if (word == "i") return Buffer::kSend;
  if (word == "o") return Buffer::kRecv;
  if (word != "s") attributes.refuse(fmt::format("{}=\"{}\" is no buffer", name, word.substr(0, kMaxName)));
  return Buffer::kScratch;
}

Result<Step> parse_step(const XmlElement& element) {
  Attributes attributes(element);
  Step step;
  step.line = element.line;
  const std::string word = attributes.text("type");
  const auto found = std::ranges::find(kActions, word);
  if (found == kActions.end()) return element.fault(fmt::format("type=\"{}\" is no step", word.substr(0, kMaxName)));
  step.action = static_cast<Action>(found - kActions.begin());
  step.source.buffer = buffer_of(attributes, "srcbuf");
  step.target.buffer = buffer_of(attributes, "dstbuf");
  step.source.first = attributes.integer("srcoff", -1, kMaxChunks - 1);
  step.target.first = attributes.integer("dstoff", -1, kMaxChunks - 1);
  step.count = attributes.integer("cnt", step.action == Action::kNothing ? 0 : 1, kMaxChunks);
  step.await_block = attributes.integer("depid", -1, kMaxBlocks - 1);
  step.await_step = attributes.integer("deps", -1, kMaxSteps - 1);
  if (!attributes.status().ok()) return attributes.status();
  return step;
}

int32_t chunks_of(const Gpu& gpu, Buffer buffer) {
  if (buffer == Buffer::kSend) return gpu.input_chunks;
  return buffer == Buffer::kRecv ? gpu.output_chunks : gpu.scratch_chunks;
}

Status check_step(const XmlElement& element, const Gpu& gpu, const Block& block, const Step& step) {
  const auto inside = [&](const Place& place) {
    return place.first >= 0 && int64_t{place.first} + step.count <= chunks_of(gpu, place.buffer);
  };
  if (reads(step.action) && !inside(step.source)) return element.fault("it reads beyond its buffer");
  if (writes(step.action) && !inside(step.target)) return element.fault("it writes beyond its buffer");
  if (sends(step.action) && block.send < 0)
    return element.fault("it sends, but its thread block has nobody to send to");
  if (receives(step.action) && block.recv < 0)
    return element.fault("it receives, but its thread block has nobody to receive from");
  return {};
}

Result<Block> parse_block(const XmlElement& element, const Gpu& gpu, Rank self, Rank gpus) {
  if (element.name != "tb") return element.fault("expected <tb>");
  Attributes attributes(element);
  Block block;
  attributes.integer("id", static_cast<int64_t>(gpu.blocks.size()), static_cast<int64_t>(gpu.blocks.size()));
  block.send = attributes.integer("send", -1, gpus - 1);
  block.recv = attributes.integer("recv", -1, gpus - 1);
  block.channel = attributes.integer("chan", 0, kMaxChannel);
  if (!attributes.status().ok()) return attributes.status();
  if (block.send == self || block.recv == self) return element.fault("it sends to or receives from its own GPU");
  for (const auto& child : element.children) {
    if (child->name != "step") return child->fault("expected <step>");
    const Result<Step> step = parse_step(*child);
    if (!step.ok()) return step.status();
    HOCKET_TRY(check_step(*child, gpu, block, *step));
    block.steps.push_back(*step);
  }
  return block;
}

Status check_awaited(const XmlElement& element, const Gpu& gpu) {
  for (size_t block = 0; block < gpu.blocks.size(); ++block) {
    for (size_t i = 0; i < gpu.blocks[block].steps.size(); ++i) {
      const Step& step = gpu.blocks[block].steps[i];
      if (step.await_block < 0) continue;
      const bool exists =
          static_cast<size_t>(step.await_block) < gpu.blocks.size() && step.await_step >= 0 &&
          static_cast<size_t>(step.await_step) < gpu.blocks[static_cast<size_t>(step.await_block)].steps.size();
      if (!exists) {
        return element.children[block]->children[i]->fault(fmt::format(
            "it waits for step {} of thread block {}, which is not there", step.await_step, step.await_block));
      }
    }
  }
  return {};
}

Result<Gpu> parse_gpu(const XmlElement& element, Rank self, Rank gpus) {
  if (element.name != "gpu") return element.fault("expected <gpu>");
  Attributes attributes(element);
  Gpu gpu;
  attributes.integer("id", self, self);
  gpu.input_chunks = attributes.integer("i_chunks", 0, kMaxChunks);
  gpu.output_chunks = attributes.integer("o_chunks", 0, kMaxChunks);
  gpu.scratch_chunks = attributes.integer("s_chunks", 0, kMaxChunks);
  if (!attributes.status().ok()) return attributes.status();
  if (element.children.size() > kMaxBlocks) return element.fault(fmt::format("more than {} thread blocks", kMaxBlocks));
  for (const auto& child : element.children) {
    Result<Block> block = parse_block(*child, gpu, self, gpus);
    if (!block.ok()) return block.status();
    gpu.blocks.push_back(std::move(*block));
  }
  HOCKET_TRY(check_awaited(element, gpu));
  return gpu;
}

}  // namespace

Status refused(std::string_view reason) { return {Code::kInvalidArgument, fmt::format("msccl: {}", reason)}; }

std::optional<Collective> collective_of(std::string_view word) {
  if (word == "allreduce") return Collective::kAllReduce;
  if (word == "allgather") return Collective::kAllGather;
  if (word == "reduce_scatter" || word == "reducescatter") return Collective::kReduceScatter;
  if (word == "alltoall") return Collective::kAllToAll;
  return std::nullopt;
}

std::string plain(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  std::erase_if(name, [](char c) { return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'); });
  name.resize(std::min(name.size(), kMaxAlgorithmName));
  return name.empty() ? "msccl" : name;
}

bool receives(Action action) {
  return action == Action::kRecv || action == Action::kRecvCopySend || action == Action::kRecvReduceCopy ||
         action == Action::kRecvReduceSend || action == Action::kRecvReduceCopySend;
}

bool sends(Action action) {
  return action == Action::kSend || action == Action::kRecvCopySend || action == Action::kRecvReduceSend ||
         action == Action::kRecvReduceCopySend;
}

bool reduces(Action action) {
  return action == Action::kRecvReduceCopy || action == Action::kRecvReduceSend ||
         action == Action::kRecvReduceCopySend || action == Action::kReduce;
}

bool writes(Action action) {
  return action != Action::kSend && action != Action::kRecvReduceSend && action != Action::kNothing;
}

bool reads(Action action) { return action == Action::kSend || action == Action::kCopy || reduces(action); }

std::string_view name(Action action) { return kActions[static_cast<size_t>(action)]; }

Result<Algorithm> parse(std::string_view xml) {
  const Result<std::unique_ptr<XmlElement>> root = parse_xml(xml);
  if (!root.ok()) return root.status();
  const XmlElement& element = **root;
  if (element.name != "algo") return element.fault("expected <algo>");
  Attributes attributes(element);
  Algorithm algorithm;
  const std::string word = attributes.text("coll");
  const int32_t gpus = attributes.integer("ngpus", 1, kMaxMscclGpus);
  const int32_t in_place = attributes.integer("inplace", 0, 1);
  const int32_t out_of_place = attributes.integer("outofplace", 0, 1);
  if (!attributes.status().ok()) return attributes.status();
  const std::optional<Collective> collective = collective_of(word);
  if (!collective)
    return element.fault(fmt::format("coll=\"{}\" is no collective that is known", word.substr(0, kMaxName)));
  algorithm.name = plain(attributes.text("name"));
  algorithm.collective = *collective;
  algorithm.in_place = in_place == 1 && out_of_place == 0;
  if (element.children.size() != static_cast<size_t>(gpus))
    return element.fault(fmt::format("ngpus is {}, but there are {}", gpus, element.children.size()));
  for (Rank rank = 0; rank < gpus; ++rank) {
    Result<Gpu> gpu = parse_gpu(*element.children[static_cast<size_t>(rank)], rank, gpus);
    if (!gpu.ok()) return gpu.status();
    algorithm.gpus.push_back(std::move(*gpu));
  }
  return algorithm;
}

}  // namespace hocket::msccl
