// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/mscclpp_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/check.h"
#include "plan/msccl.h"
#include "plan/msccl_file.h"
#include "plan/mscclpp_operations.h"
#include "plan/mscclpp_reader.h"

namespace hocket::mscclpp {
namespace {

constexpr size_t kMaxChannels = 4096;  // of a GPU
constexpr size_t kMaxName = 40;

class Parser {
 public:
  Result<Algorithm> parse(const Json& root) {
    Reader reader(root, "the file");
    const std::string word = reader.text("collective");
    algorithm_.name = msccl::plain(reader.text("name"));
    algorithm_.in_place = root.value("inplace", Json(false)) == Json(true);
    const Json& gpus = reader.list("gpus", kMaxMscclGpus);
    HOCKET_TRY(reader.status());
    const std::optional<Collective> collective = msccl::collective_of(word);
    if (!collective.has_value())
      return refused(fmt::format("'{}' is no collective that is known", word.substr(0, kMaxName)));
    if (gpus.empty()) return refused("there are no gpus");
    algorithm_.collective = *collective;
    ranks_ = static_cast<Rank>(gpus.size());
    for (Rank rank = 0; rank < ranks_; ++rank) HOCKET_TRY(parse_head(gpus[static_cast<size_t>(rank)], rank));
    pair_channels();
    for (Rank rank = 0; rank < ranks_; ++rank) HOCKET_TRY(parse_blocks(gpus[static_cast<size_t>(rank)], rank));
    return std::move(algorithm_);
  }

 private:
  Status parse_head(const Json& json, Rank rank) {
    const std::string where = fmt::format("gpu {}", rank);
    Reader reader(json, where);
    Gpu gpu;
    reader.integer("id", rank, rank);
    gpu.input_chunks = reader.integer("input_chunks", 1, kMaxChunks);
    gpu.output_chunks = reader.integer("output_chunks", 1, kMaxChunks);
    gpu.scratch_chunks = reader.integer("scratch_chunks", 0, kMaxChunks);
    const Json& channels = reader.list("channels", kMaxChannels);
    const Json& buffers = reader.list("remote_buffers", kMaxChannels);
    HOCKET_TRY(reader.status());
    HOCKET_TRY(parse_channels(channels, where, gpu));
    HOCKET_TRY(parse_buffers(buffers, where));
    algorithm_.gpus.push_back(std::move(gpu));
    return {};
  }

  Status parse_channels(const Json& list, const std::string& where, Gpu& gpu) {
    Numbers& numbers = channels_.emplace_back();
    std::vector<std::string>& types = types_.emplace_back();
    for (const Json& group : list) {
      Reader reader(group, where + " channels");
      HOCKET_TRY(reader.status());
      const std::string type = reader.text("channel_type");
      for (const int32_t peer : reader.integers("connected_to", ranks_ - 1)) {
        numbers[type].push_back(static_cast<int32_t>(gpu.channels.size()));
        gpu.channels.push_back({peer, -1});
        types.push_back(type);
      }
      HOCKET_TRY(reader.status());
      if (types.size() > kMaxChannels) return refused(fmt::format("{}: more than {} channels", where, kMaxChannels));
    }
    return {};
  }

  Status parse_buffers(const Json& list, const std::string& where) {
    std::vector<RemoteBuffer>& buffers = buffers_.emplace_back();
    for (const Json& buffer : list) {
      Reader reader(buffer, where + " remote_buffers");
      HOCKET_TRY(reader.status());
      const Rank owner = reader.integer("rank", 0, ranks_ - 1);
      const std::optional<Buffer> kind = buffer_of(reader.text("type"));
      if (!kind.has_value()) reader.wrong("type", "is not i, o or s");
      HOCKET_TRY(reader.status());
      buffers.push_back({owner, kind.value_or(Buffer::kSend)});
    }
    return {};
  }

  // The k-th channel of a kind from a to b is the k-th of that kind from b to a.
  void pair_channels() {
    std::map<std::tuple<std::string, Rank, Rank>, std::vector<int32_t>> between;
    for (size_t gpu = 0; gpu < algorithm_.gpus.size(); ++gpu) {
      const auto& channels = algorithm_.gpus[gpu].channels;
      for (size_t i = 0; i < channels.size(); ++i)
        between[{types_[gpu][i], static_cast<Rank>(gpu), channels[i].peer}].push_back(static_cast<int32_t>(i));
    }
    for (const auto& [ends, ours] : between) {
      const auto& [type, rank, peer] = ends;
      const auto theirs = between.find({type, peer, rank});
      if (theirs == between.end()) continue;
      for (size_t i = 0; i < std::min(ours.size(), theirs->second.size()); ++i)
        algorithm_.gpus[static_cast<size_t>(rank)].channels[static_cast<size_t>(ours[i])].there = theirs->second[i];
    }
  }

  Status parse_blocks(const Json& json, Rank rank) {
    const auto gpu = static_cast<size_t>(rank);
    Reader reader(json, fmt::format("gpu {}", rank));
    for (const Json& block : reader.list("threadblocks", kMaxBlocks)) {
      if (++blocks_ > kMaxBlocks) return refused(fmt::format("more than {} thread blocks in all", kMaxBlocks));
      Scope scope{.gpus = &algorithm_.gpus,
                  .gpu = rank,
                  .channels = &channels_[gpu],
                  .buffers = &buffers_[gpu],
                  .own_channels = {},
                  .own_buffers = {}};
      std::vector<Operation>& operations = algorithm_.gpus[gpu].blocks.emplace_back();
      HOCKET_TRY(parse_block(block, scope, algorithm_.gpus[gpu].blocks.size() - 1, operations));
    }
    return reader.status();
  }

  static Status parse_block(const Json& json, Scope& scope, size_t number, std::vector<Operation>& operations) {
    const std::string where = fmt::format("gpu {} thread block {}", scope.gpu, number);
    Reader reader(json, where);
    HOCKET_TRY(reader.status());
    const Json& channels = reader.list("channels", kMaxChannels);
    const Json& buffers = reader.list("remote_buffer_refs", kMaxChannels);
    const Json& list = reader.list("ops", kMaxList);
    HOCKET_TRY(reader.status());
    HOCKET_TRY(read_numbers(channels, "channel_type", "channel_ids", where, scope.own_channels));
    HOCKET_TRY(read_numbers(buffers, "access_channel_type", "remote_buffer_ids", where, scope.own_buffers));
    for (const Json& operation : list) {
      Result<Operation> parsed =
          parse_operation(operation, scope, fmt::format("{} operation {}", where, operations.size()));
      if (!parsed.ok()) return parsed.status();
      operations.push_back(std::move(*parsed));
    }
    return {};
  }

  static Status read_numbers(const Json& list, const char* type, const char* ids, const std::string& where,
                             Numbers& into) {
    for (const Json& group : list) {
      Reader reader(group, where);
      HOCKET_TRY(reader.status());
      const std::string name = reader.text(type);
      const std::vector<int32_t> numbers = reader.integers(ids, kMaxList);
      HOCKET_TRY(reader.status());
      auto& all = into[name];
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return {};
  }

  Algorithm algorithm_;
  Rank ranks_ = 0;
  int32_t blocks_ = 0;
  std::vector<Numbers> channels_;                // of each GPU
  std::vector<std::vector<std::string>> types_;  // of its channels
  std::vector<std::vector<RemoteBuffer>> buffers_;
};

}  // namespace

Status refused(std::string_view reason) { return {Code::kInvalidArgument, fmt::format("msccl++: {}", reason)}; }

Result<Algorithm> parse(std::string_view json) {
  const Result<Json> root = read_object(json);
  if (!root.ok()) return root.status();
  return Parser().parse(*root);
}

}  // namespace hocket::mscclpp
