// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/stream_slices.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace hocket {
namespace {

// Of who waits for a slice, which takes some tens of microseconds where the device has nothing else to do.
constexpr Duration kFirstNap = std::chrono::microseconds(20);
constexpr Duration kLongestNap = std::chrono::milliseconds(10);

Result<OwnStreams> make_streams(const cuda::Driver& driver) {
  OwnStreams streams;
  for (cuda::Stream& stream : streams) {
    const Result<cuda::Stream> made = cuda::Stream::make(driver);
    HOCKET_TRY(made.status());
    stream = *made;
  }
  return streams;
}

}  // namespace

Result<const OwnStreams*> own_streams(const cuda::Driver& driver, cuda::Context context) {
  static auto& streams = *new std::map<cuda::Context, OwnStreams>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto known = streams.find(context);
  if (known == streams.end()) {
    const Result<OwnStreams> made = make_streams(driver);
    HOCKET_TRY(made.status());
    known = streams.emplace(context, *made).first;
  }
  return &known->second;
}

Status StreamSlices::prepare(const cuda::Stream& stream, size_t lanes) {
  const cuda::Entered entered(stream.driver(), stream.context());
  while (lanes_.size() < lanes) {
    Result<cuda::KeptEvent> event = cuda::KeptEvent::take(stream.driver(), stream.context());
    HOCKET_TRY(event.status());
    lanes_.push_back({stream, std::move(*event)});
  }
  return {};
}

Duration StreamSlices::next_nap() const {
  Duration nap = Duration::max();
  const auto now = std::chrono::steady_clock::now();
  for (const Lane& lane : lanes_) {
    if (lane.under_way) nap = std::min(nap, std::clamp<Duration>(now - lane.begun, kFirstNap, kLongestNap));
  }
  return nap;
}

// What cannot be marked is waited for here: nobody else could tell when it no longer uses memory.
Status StreamSlices::begin(size_t lane, const cuda::Stream& stream) {
  Lane& its = lanes_[lane];
  its.stream = stream;
  its.begun = std::chrono::steady_clock::now();
  const cuda::Entered entered(stream.driver(), stream.context());
  const Status marked = stream.mark(its.ended.get());
  its.under_way = marked.ok();
  if (!marked.ok()) stream.wait_until_idle();
  return marked;
}

// What the driver cannot say anything of is under way until wait() has asked once more.
Result<bool> StreamSlices::has_ended(size_t lane) {
  Lane& its = lanes_[lane];
  const cuda::Entered entered(its.stream.driver(), its.stream.context());
  const cuda::DriverResult state = its.stream.driver().event_query(its.ended.get());
  if (state == cuda::kNotReady) return false;
  HOCKET_TRY(checked(its.stream.driver(), state, "cuEventQuery"));
  its.under_way = false;
  return true;
}

void StreamSlices::wait() {
  for (Lane& lane : lanes_) {
    if (!std::exchange(lane.under_way, false)) continue;
    const cuda::Entered entered(lane.stream.driver(), lane.stream.context());
    cuda::DriverResult state;
    while ((state = lane.stream.driver().event_query(lane.ended.get())) == cuda::kNotReady) std::this_thread::yield();
    // Perhaps nothing was said of the event, and its kernels go on: the stream knows.
    if (state != cuda::kSuccess) lane.stream.wait_until_idle();
  }
}

}  // namespace hocket
