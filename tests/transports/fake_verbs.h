// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// RDMA devices that are not there: the table of libibverbs' functions over plain memory, as strict as a device. It
// keeps the rules of states, keys, bounds and queues, so that who breaks one sees what a device would tell; and it
// fails where a test tells it to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transports/verbs/table.h"

namespace hocket::test {

struct FakePort {
  std::string device = "fake0";
  bool ethernet = true;
  ibv_mtu mtu = IBV_MTU_1024;
  uint8_t speed = 32;  // ibv_port_attr::active_speed
  bool up = true;
  std::vector<ibv_gid_entry> gids;
};

// "::ffff:10.0.0.1" or another IPv6 address.
ibv_gid_entry fake_gid(const char* address, uint32_t index, uint32_t type = IBV_GID_TYPE_ROCE_V2);

enum class FakeCall : uint8_t {
  kNone,
  kAllocPd,
  kRegister,
  kRegisterDmaBuf,
  kMakeChannel,
  kMakeQueue,
  kMakePair,
  kModifyPair,
  kPost
};

// Forgets all that was set; one active RoCE port, with a link-local and an IPv4 address. Nothing may be left of before.
void reset_fake_verbs();
Result<const VerbsTable*> fake_verbs();
void set_fake_ports(std::vector<FakePort> ports);
// In a network each; the first is twice as fast.
void set_two_fake_ports();
// The call after so many more of its kind fails with this error.
void fail_fake_call(FakeCall call, int after, int error);
// All queue pairs that there are (of one port, from 1) lose their connection: what is posted ends with "transport retry
// counter exceeded".
void break_fake_pairs(size_t port = 0);
// A port that is down says so, and carries nothing.
void set_fake_port_up(size_t port, bool up);
// The same for those alone that have sends under way.
void break_fake_senders();
// What one of all queue pairs sends from now on does not arrive, and it says nothing of it.
void silence_fake_pair(size_t which);
// Writes that tell their receiver nothing stay on their way, and what is posted after them waits, until they are
// delivered to whom still takes them: so many.
void delay_fake_writes();
size_t deliver_fake_writes();
// The device is pulled out: whatever it is asked fails, and what is under way says nothing any more.
void remove_fake_device();
// From now on each port hangs on a network of its own: it reaches none but its like.
void set_fake_networks_apart();
// Queue pairs that are connected, of that port.
size_t fake_connected_pairs(size_t port);
// Senders hear of no completion until this is false again.
void hold_fake_acknowledgements(bool hold);
// The peer of each sender of data, or of each of room, tells an immediate value of the test's.
void tell_fake_immediate(bool to_receivers, uint32_t immediate);
// How often a device has read a peer's memory.
size_t fake_reads();
// Of dma-bufs, bytes that are registered. A dma-buf is a file whose position is where the range begins.
size_t fake_dma_buf_bytes();
// The way to each queue pair's peer: its address, in which the marks are, and what a packet may have.
struct FakePath {
  ibv_ah_attr address{};
  ibv_mtu mtu = IBV_MTU_256;
};
std::vector<FakePath> fake_paths();
// How many sends had their data in the request.
size_t fake_inline_sends();
// How often the library was prepared for forks, ever.
size_t fake_fork_inits();
// How often a device was opened, ever.
size_t fake_openings();
// All that was made and not destroyed; of registered memory, its bytes.
size_t fake_objects();
size_t fake_registered_bytes();

}  // namespace hocket::test
