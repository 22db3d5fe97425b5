// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The frames of a link, from a peer that says anything, also where it goes on over another connection: the link ends
// once, and no frame is longer than it may be. The first byte says in what pieces it comes, whether the checksums are
// put right first, and whether the connection changes in the middle.
#include <cstdint>
#include <cstdlib>

#include "base/crc32c.h"
#include "base/real_system.h"
#include "comm/links.h"
#include "comm/links_heart.h"
#include "tests/fuzz/scripted_socket.h"

namespace {

using namespace hocket;

constexpr size_t kMaxFrame = 1024;
constexpr size_t kHeaderBytes = 16;

void check(bool holds) {
  if (!holds) std::abort();
}

uint32_t checksum(const std::string& text, size_t begin, size_t bytes) {
  return crc32c(std::as_bytes(std::span(text)).subspan(begin, bytes));
}

std::string with_checksums(std::string stream) {
  for (size_t at = 0; at + kHeaderBytes <= stream.size();) {
    const size_t frame = at + kHeaderBytes;
    const size_t length = std::min<size_t>(word_at(stream, at), stream.size() - frame);
    set_word(stream, at + 8, checksum(stream, frame, length));
    set_word(stream, at + 12, checksum(stream, at, 12));
    at = frame + length;
  }
  return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string stream(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((data[0] & 1) != 0) stream = with_checksums(std::move(stream));
  const bool moves = (data[0] & 2) != 0;
  const size_t piece = 1 + data[0] / 4;
  const size_t before = moves ? std::min<size_t>(data[1], stream.size()) : stream.size();

  static System& system = real_system();
  static const auto watched = std::move(*system.network.make_poller());  // a handle that has no news
  Reactor reactor(system);
  Heart heart(system, reactor, std::chrono::seconds(1));
  Link link({system, reactor, heart},
            std::make_unique<ScriptedSocket>(stream.substr(0, before), piece, watched->handle()), kMaxFrame);
  int ends = 0;
  const Status started = link.start(
      [&](std::string_view frame, const std::vector<Handle>& handles) {
        check(ends == 0 && !frame.empty() && frame.size() <= kMaxFrame && handles.empty());
      },
      [&](Link::End, const Status& why) {
        ++ends;
        check(!why.ok());
      });
  check(started.ok());
  if (moves) link.outlive_connections([] {});
  link.send("what the other end may lack");
  const Time never_heard = Time::max();
  link.expect_news_since(Time(), never_heard);  // reads what there is
  if (moves && ends == 0) {
    check(link.move_to(std::make_unique<ScriptedSocket>(stream.substr(before), piece, watched->handle())).ok());
    link.expect_news_since(Time(), never_heard);
  }
  link.expect_news_since(never_heard, never_heard);
  check(ends == 1);
  return 0;
}
