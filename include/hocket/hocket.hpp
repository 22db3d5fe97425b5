// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A thin C++17 face over hocket.h: handles that clean up after themselves, element types taken from the pointers, and
// errors as exceptions. It adds no behaviour; hocket.h says what each call does.
#ifndef HOCKET_HOCKET_HPP_
#define HOCKET_HOCKET_HPP_

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hocket/hocket.h"

namespace hocket {
inline namespace face {

// What a call of hocket.h answered when it was not hocketSuccess, with the text of hocketGetLastError.
class Error : public std::runtime_error {
 public:
  Error(hocketResult_t result, const char* text)
      : std::runtime_error(text != nullptr && *text != '\0' ? text : hocketGetErrorString(result)), result_(result) {}
  hocketResult_t result() const noexcept { return result_; }

 private:
  hocketResult_t result_;
};

inline void check(hocketResult_t result, hocketComm_t comm = nullptr) {
  if (result != hocketSuccess) throw Error(result, hocketGetLastError(comm));
}

// The data type of a C++ type. Specialise it for a type of yours, for example a 16-bit float.
template <typename T>
struct DataType;
template <>
struct DataType<std::int8_t> {
  static constexpr hocketDataType_t value = hocketInt8;
};
template <>
struct DataType<std::uint8_t> {
  static constexpr hocketDataType_t value = hocketUint8;
};
template <>
struct DataType<std::int32_t> {
  static constexpr hocketDataType_t value = hocketInt32;
};
template <>
struct DataType<std::uint32_t> {
  static constexpr hocketDataType_t value = hocketUint32;
};
template <>
struct DataType<std::int64_t> {
  static constexpr hocketDataType_t value = hocketInt64;
};
template <>
struct DataType<std::uint64_t> {
  static constexpr hocketDataType_t value = hocketUint64;
};
template <>
struct DataType<float> {
  static constexpr hocketDataType_t value = hocketFloat32;
};
template <>
struct DataType<double> {
  static constexpr hocketDataType_t value = hocketFloat64;
};

inline hocketUniqueId make_unique_id() {
  hocketUniqueId id;
  check(hocketGetUniqueId(&id));
  return id;
}

// Runs what `calls` issues as one group. An exception of `calls` ends the group first.
template <typename Calls>
void group(Calls&& calls) {
  check(hocketGroupStart());
  try {
    std::forward<Calls>(calls)();
  } catch (...) {
    hocketGroupEnd();
    throw;
  }
  check(hocketGroupEnd());
}

// Runs operations in the background, in order. Destroying it waits for all that was issued.
class Queue {
 public:
  Queue() { check(hocketQueueCreate(&queue_)); }
  ~Queue() { hocketQueueDestroy(queue_); }
  Queue(Queue&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
  Queue& operator=(Queue&& other) noexcept {
    std::swap(queue_, other.queue_);
    return *this;
  }

  hocketStream_t stream() const { return hocketQueueStream(queue_); }
  hocketQueue_t get() const noexcept { return queue_; }
  // Names all that was issued so far, for done() and wait().
  std::uint64_t mark() {
    std::uint64_t mark = 0;
    check(hocketQueueMark(queue_, &mark));
    return mark;
  }
  bool done(std::uint64_t mark) {
    int done = 0;
    check(hocketQueueTest(queue_, mark, &done));
    return done != 0;
  }
  void wait(std::uint64_t mark) { check(hocketQueueWait(queue_, mark)); }
  void synchronize() { check(hocketQueueSynchronize(queue_)); }

 private:
  hocketQueue_t queue_ = nullptr;
};

class Communicator {
 public:
  // The ranks that a launcher started; without a launcher, one rank.
  static Communicator from_environment(hocketConfig_t* config = nullptr) {
    Communicator communicator;
    check(hocketCommInitFromEnvironment(&communicator.comm_, config));
    return communicator;
  }
  static Communicator join(const hocketUniqueId& id, int ranks, int rank, hocketConfig_t* config = nullptr) {
    Communicator communicator;
    check(hocketCommInitRankConfig(&communicator.comm_, ranks, id, rank, config));
    return communicator;
  }
  // Ranks of this process, to be driven by a thread each or by groups.
  static std::vector<Communicator> all(int ranks) {
    std::vector<Communicator> communicators(static_cast<std::size_t>(ranks < 0 ? 0 : ranks));
    std::vector<hocketComm_t> comms(communicators.size());
    check(hocketCommInitAll(comms.data(), ranks, nullptr));
    for (std::size_t i = 0; i < comms.size(); ++i) communicators[i].comm_ = comms[i];
    return communicators;
  }

  Communicator() = default;  // no communicator; to be assigned to
  ~Communicator() { hocketCommDestroy(comm_); }
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }

  hocketComm_t get() const noexcept { return comm_; }
  int size() const {
    int count = 0;
    call(hocketCommCount(comm_, &count));
    return count;
  }
  int rank() const {
    int rank = 0;
    call(hocketCommUserRank(comm_, &rank));
    return rank;
  }
  // Empty for HOCKET_SPLIT_NOCOLOR.
  Communicator split(int color, int key, hocketConfig_t* config = nullptr) {
    Communicator communicator;
    call(hocketCommSplit(comm_, color, key, &communicator.comm_, config));
    return communicator;
  }
  void finalize() { call(hocketCommFinalize(comm_)); }
  void abort() { check(hocketCommAbort(std::exchange(comm_, nullptr))); }

  template <typename T>
  void all_reduce(const T* send, T* receive, std::size_t count, hocketRedOp_t op = hocketSum,
                  hocketStream_t stream = nullptr) {
    call(hocketAllReduce(send, receive, count, DataType<T>::value, op, comm_, stream));
  }
  template <typename T>
  void broadcast(const T* send, T* receive, std::size_t count, int root, hocketStream_t stream = nullptr) {
    call(hocketBroadcast(send, receive, count, DataType<T>::value, root, comm_, stream));
  }
  template <typename T>
  void reduce(const T* send, T* receive, std::size_t count, int root, hocketRedOp_t op = hocketSum,
              hocketStream_t stream = nullptr) {
    call(hocketReduce(send, receive, count, DataType<T>::value, op, root, comm_, stream));
  }
  template <typename T>
  void all_gather(const T* send, T* receive, std::size_t send_count, hocketStream_t stream = nullptr) {
    call(hocketAllGather(send, receive, send_count, DataType<T>::value, comm_, stream));
  }
  template <typename T>
  void reduce_scatter(const T* send, T* receive, std::size_t receive_count, hocketRedOp_t op = hocketSum,
                      hocketStream_t stream = nullptr) {
    call(hocketReduceScatter(send, receive, receive_count, DataType<T>::value, op, comm_, stream));
  }
  template <typename T>
  void all_to_all(const T* send, T* receive, std::size_t count, hocketStream_t stream = nullptr) {
    call(hocketAllToAll(send, receive, count, DataType<T>::value, comm_, stream));
  }
  template <typename T>
  void gather(const T* send, T* receive, std::size_t count, int root, hocketStream_t stream = nullptr) {
    call(hocketGather(send, receive, count, DataType<T>::value, root, comm_, stream));
  }
  template <typename T>
  void scatter(const T* send, T* receive, std::size_t count, int root, hocketStream_t stream = nullptr) {
    call(hocketScatter(send, receive, count, DataType<T>::value, root, comm_, stream));
  }
  template <typename T>
  void scan(const T* send, T* receive, std::size_t count, hocketRedOp_t op = hocketSum,
            hocketStream_t stream = nullptr) {
    call(hocketScan(send, receive, count, DataType<T>::value, op, comm_, stream));
  }
  template <typename T>
  void exclusive_scan(const T* send, T* receive, std::size_t count, hocketRedOp_t op = hocketSum,
                      hocketStream_t stream = nullptr) {
    call(hocketExScan(send, receive, count, DataType<T>::value, op, comm_, stream));
  }
  template <typename T>
  void send(const T* buffer, std::size_t count, int peer, hocketStream_t stream = nullptr) {
    call(hocketSend(buffer, count, DataType<T>::value, peer, comm_, stream));
  }
  template <typename T>
  void receive(T* buffer, std::size_t count, int peer, hocketStream_t stream = nullptr) {
    call(hocketRecv(buffer, count, DataType<T>::value, peer, comm_, stream));
  }

  // V-forms: one count per rank, and where each part begins (nullptr: packed in rank order).
  template <typename T>
  void all_gather_v(const T* send, std::size_t send_count, T* receive, const std::size_t* receive_counts,
                    const std::size_t* displacements = nullptr, hocketStream_t stream = nullptr) {
    call(hocketAllGatherV(send, send_count, receive, receive_counts, displacements, DataType<T>::value, comm_, stream));
  }
  template <typename T>
  void reduce_scatter_v(const T* send, T* receive, const std::size_t* receive_counts, hocketRedOp_t op = hocketSum,
                        hocketStream_t stream = nullptr) {
    call(hocketReduceScatterV(send, receive, receive_counts, DataType<T>::value, op, comm_, stream));
  }
  template <typename T>
  void all_to_all_v(const T* send, const std::size_t* send_counts, const std::size_t* send_displacements, T* receive,
                    const std::size_t* receive_counts, const std::size_t* receive_displacements,
                    hocketStream_t stream = nullptr) {
    call(hocketAllToAllV(send, send_counts, send_displacements, receive, receive_counts, receive_displacements,
                         DataType<T>::value, comm_, stream));
  }
  template <typename T>
  void gather_v(const T* send, std::size_t send_count, T* receive, const std::size_t* receive_counts,
                const std::size_t* displacements, int root, hocketStream_t stream = nullptr) {
    call(hocketGatherV(send, send_count, receive, receive_counts, displacements, DataType<T>::value, root, comm_,
                       stream));
  }
  template <typename T>
  void scatter_v(const T* send, const std::size_t* send_counts, const std::size_t* displacements, T* receive,
                 std::size_t receive_count, int root, hocketStream_t stream = nullptr) {
    call(hocketScatterV(send, send_counts, displacements, receive, receive_count, DataType<T>::value, root, comm_,
                        stream));
  }
  void barrier(hocketStream_t stream = nullptr) { call(hocketBarrier(comm_, stream)); }

 private:
  void call(hocketResult_t result) const { check(result, comm_); }

  hocketComm_t comm_ = nullptr;
};

}  // namespace face
}  // namespace hocket

#endif  // HOCKET_HOCKET_HPP_
