// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "base/caught.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/binding.h"
#include "comm/call_windows.h"
#include "comm/choosing.h"
#include "comm/device_windows.h"
#include "comm/direct_memory.h"
#include "comm/low_latency.h"
#include "comm/shared_heap.h"
#include "comm/unique_id.h"
#include "cuda/memory.h"
#include "execute/coded.h"
#include "kernels/accumulators.h"
#include "plan/lending.h"

namespace hocket {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLentAlways = 1 << 20;

bool on_device(std::span<std::byte> memory) {
  const cuda::Driver* const driver = cuda::look_for_driver();
  return driver != nullptr && cuda::recognise(*driver, memory.data()).is_cuda();
}

FlightMember flight_member(const Mesh& mesh, int hosts, const CommunicatorOptions& options) {
  uint64_t communicator = 0;
  std::memcpy(&communicator, public_id_of(options.key).data(), sizeof communicator);
  return {options.name, mesh.rank(), mesh.ranks(), hosts, communicator, mesh.budget().bytes()};
}

}  // namespace

// The first lane's ends are there from the beginning: transfers with different peers may be driven by different
// threads, and all use that lane.
PipeEnds::PipeEnds(Mesh& mesh, PipeClass pipe_class) : mesh_(mesh), class_(pipe_class), senders_(1), receivers_(1) {
  senders_[0].resize(static_cast<size_t>(mesh.ranks()));
  receivers_[0].resize(static_cast<size_t>(mesh.ranks()));
}

SendEnd& PipeEnds::to(Rank peer, int lane) {
  const auto row = static_cast<size_t>(lane);
  if (row >= senders_.size()) senders_.resize(row + 1);
  if (senders_[row].empty()) senders_[row].resize(static_cast<size_t>(mesh_.ranks()));
  SendEnd& end = senders_[row][static_cast<size_t>(peer)];
  if (end.pipe == nullptr) end.pipe = mesh_.sender(class_, peer, lane);
  return end;
}

ReceiveEnd& PipeEnds::from(Rank peer, int lane) {
  const auto row = static_cast<size_t>(lane);
  if (row >= receivers_.size()) receivers_.resize(row + 1);
  if (receivers_[row].empty()) receivers_[row].resize(static_cast<size_t>(mesh_.ranks()));
  ReceiveEnd& end = receivers_[row][static_cast<size_t>(peer)];
  if (end.pipe == nullptr) end.pipe = mesh_.receiver(class_, peer, lane);
  return end;
}

Communicator::Communicator(System& system, std::shared_ptr<Mesh> mesh, CommunicatorOptions options)
    : system_(system),
      mesh_(std::move(mesh)),
      options_(std::move(options)),
      prefix_(options_.name.empty() ? "" : options_.name + ": "),
      placement_(hocket::placement(*mesh_)),
      crowd_(crowd(*mesh_, mesh_->rank())),
      wait_(system, crowd_.shares_cores(), options_.spin, &core_sharing_),
      slice_limit_(longest_message(*mesh_, placement_), mesh_->slice_memory(), placement_),
      planner_({.rank = rank(),
                .ranks = ranks(),
                .longest_message = slice_limit_.longest(),
                .compression = options_.compression,
                .imported = options_.imported,
                .explore = mesh_->reaches_devices() ? 0 : options_.explore},
               Chooser(options_.forced, tuning(*mesh_), placement_, slice_limit_, options_.lanes)),
      lane_(options_.flight == nullptr
                ? nullptr
                : options_.flight->open(flight_member(*mesh_, static_cast<int>(placement_.hosts.size()), options_))),
      call_log_(std::make_shared<CallLog>(system.clock, lane_)),
      collective_pipes_(*mesh_, PipeClass::kCollective),
      transfer_pipes_(*mesh_, PipeClass::kPointToPoint),
      sends_(static_cast<size_t>(mesh_->ranks())),
      receives_(static_cast<size_t>(mesh_->ranks())),
      recent_transfers_(2 * static_cast<size_t>(mesh_->ranks())),
      not_reached_(),
      told_(static_cast<size_t>(mesh_->ranks())),
      reductions_(rank()),
      blocking_(*this, collective_pipes_),
      blocking_transfer_(*this, transfer_pipes_) {
  mesh_->set_recorder([log = call_log_](uint32_t key) { return log->report(key); });
  mesh_->set_pace([log = call_log_] { return log->pace(); });
  mesh_->set_whereabouts([log = call_log_, &clock = system.clock] { return log->whereabouts(clock.now()); });
  if (lane_ != nullptr) mesh_->budget().show(&lane_->pipe_bytes());
}

Communicator::~Communicator() {
  (void)tried([&] { return keep_what_was_found(), Status(); });
  mesh_->leave();
  if (lane_ == nullptr) return;
  mesh_->budget().show(nullptr);  // pipes may outlive us, and the lane is another's then
  options_.flight->close(lane_);
}

std::unique_ptr<Operation> Communicator::make_operation(const Request& request) {
  return std::make_unique<Operation>(*this, pipes_of(request.facts));
}

uint64_t Communicator::under_way() const {
  // In this order, lest one that ends meanwhile counts less than nothing.
  const auto add = [](uint64_t sum, const Order& order) {
    const uint64_t ended = order.ended.load();
    return sum + order.issued.load() - ended;
  };
  const uint64_t sends = std::accumulate(sends_.begin(), sends_.end(), add(0, collectives_), add);
  return add(std::accumulate(receives_.begin(), receives_.end(), sends, add), one_sided_);
}

bool Communicator::has_met(Rank peer, CallKey theirs) const {
  if (!is_transfer(theirs)) return collectives_.issued.load() >= theirs;
  const Order& ours = (is_sending(theirs) ? receives_ : sends_)[static_cast<size_t>(peer)];
  return static_cast<int16_t>(ours.issued.load() + 1 - number_of(theirs)) > 0;  // keys keep 16 bits of the number
}

void Communicator::wait_until_idle() const {
  while (!idle() && system_.memory.process() == process_)
    system_.threads.sleep_until(system_.clock.now() + std::chrono::microseconds(100));
}

void Communicator::choose_by(Forced forced, Tuning tuning, int32_t lanes) {
  planner_.choose_by(Chooser(std::move(forced), std::move(tuning), placement_, slice_limit_, lanes));
  recent_ = {};
  for (std::unique_ptr<RecentCall>& recent : recent_transfers_) recent.reset();
}

// Of a peer that there is not, which is refused later, there is none like it.
RecentCall& Communicator::recent_transfer(const CallArguments& arguments) {
  const auto way = 2 * static_cast<size_t>(arguments.peer) + (arguments.sending ? 1 : 0);
  if (way >= recent_transfers_.size()) return recent_[0];
  std::unique_ptr<RecentCall>& recent = recent_transfers_[way];
  if (recent == nullptr) recent = std::make_unique<RecentCall>();
  return *recent;
}

// ---- From request to call

// Training programs repeat their calls: what was decided for the same facts is looked up, not decided again.
Result<RecentCall*> Communicator::recall(const Request& request) {
  const CallFacts& facts = request.facts;
  const bool in_place = !is_exact(facts) && is_in_place(request, rank());
  RecentCall& recent = recent_of(facts);
  Explored* const explored = planner_.explored(request);
  const bool is_trial = explored != nullptr && explored->exploration.is_trial();
  const bool is_same = recent.plan != nullptr && recent.facts == facts && recent.in_place == in_place;
  if (is_same && !is_trial && recent.time == nullptr) {
    if (explored != nullptr) explored->exploration.count();
    recent.recalled = true;
    return &recent;
  }
  const Result<Planned> planned = planner_.plan(request, in_place);
  HOCKET_TRY(planned.status());
  const Plan& plan = *planned->plan;
  const Cut pieces = cut(plan, planned->slice_bytes);
  const size_t element = element_bytes(is_exact(facts) ? accumulator_of(facts.type) : facts.type);
  CallCut own{pieces.slice_bytes, pieces.window_bytes / element};
  if (request.codec != nullptr) own = coded_cut(*request.codec, facts.type, own, mesh_->max_message());
  if (own.window == 0) {
    return Status(Code::kInvalidUsage, fmt::format("rank {}: {}: messages of {} bytes are too short for the codec",
                                                   rank(), describe(facts), own.slice_bytes));
  }
  recent = RecentCall();
  recent.facts = facts;
  recent.in_window = is_in_window(facts);
  recent.in_place = in_place;
  recent.plan = &plan;
  recent.window = own.window;
  recent.slice_bytes = own.slice_bytes;
  recent.fingerprint = fingerprint(request, plan);
  recent.lends_up_to = lends_up_to(plan, in_place);
  recent.receives = receives_data(plan);
  recent.send = request.send;
  recent.recv = request.recv;
  if (explored == nullptr) return &recent;
  if (is_trial) recent.time = explored->exploration.time();
  if (!explored->exploration.is_settled()) recent.explored = explored;
  explored->exploration.count();
  return &recent;
}

// A lent message is copied once instead of twice, but by its receiver alone. With data beyond the caches that takes
// longer than two copies one beside the other, unless the sender's core is busy with its own part
// (docs/decisions/0015).
size_t Communicator::lends_up_to(const Plan& plan, bool in_place) const {
  if (!may_lend(plan, in_place)) return 0;
  return !crowd_.shares_cores() && works_beside(plan, in_place) ? SIZE_MAX : kLentAlways;
}

// ---- Online tuning

Result<std::unique_ptr<Operation>> Communicator::prelude_of(const Request& request) {
  if (!tells_places(*mesh_, request)) return agreement_before(request);
  auto telling = std::make_unique<Operation>(*this, collective_pipes_);
  HOCKET_TRY(telling->prepare(telling_of(request.facts, not_reached_, told_)));
  return telling;
}

Result<std::unique_ptr<Operation>> Communicator::agreement_before(const Request& request) {
  std::unique_ptr<Operation> agreement;
  Explored* const explored = planner_.explored(request);
  if (explored == nullptr) return agreement;
  Exploration& exploration = explored->exploration;
  if (exploration.awaits_times()) {
    HOCKET_TRY(wait_for_times(*explored));
    exploration.learn();
    recent_of(request.facts) = RecentCall();
  }
  if (!exploration.awaits_agreement()) return agreement;
  explored->agreed = false;
  exploration.begin_agreement();
  agreement = std::make_unique<Operation>(*this, collective_pipes_);
  agreement->tell(&explored->agreed);
  HOCKET_TRY(agreement->prepare(agreement_on(*explored)));
  return agreement;
}

// It was issued long ago, unless all calls since then are still to be issued, which only a group can be.
Status Communicator::wait_for_times(const Explored& explored) const {
  while (!explored.agreed) {
    if (mesh_->failed()) return mesh_->status();
    if (idle()) {
      return {Code::kInvalidUsage, fmt::format("{}rank {}: HOCKET_EXPLORE: more than {} equal calls in one group",
                                               prefix_, rank(), kAgreementCalls)};
    }
    system_.threads.sleep_until(system_.clock.now() + std::chrono::microseconds(100));
  }
  return {};
}

// Into the tuning file that rank 0 was given, unless it is somebody else's.
void Communicator::keep_what_was_found() {
  if (rank() != 0 || options_.explore == 0 || !settings().ok() || settings()->tuning_file.empty()) return;
  if (!planner_.remember_explored() || read_tuning_file(settings()->tuning_file).empty()) return;
  Tuning found = planner_.tuning();
  found.machine = hocket::fingerprint(machine());
  if (!write_tuning_file(settings()->tuning_file, to_text(found)))
    log_warn("the tuning file '{}' cannot be written: what was found online is lost", settings()->tuning_file);
}

// Transfers with one peer that differ each time are not bound each time, nor are calls of many slices that are made
// once.
void Communicator::bind_for_repeat(RecentCall& recent, const Call& call) {
  const size_t longest = std::max(call.send.longest_chunk(), call.recv.longest_chunk()) * element_bytes(call.type);
  const bool may_be_alone = is_transfer(recent.facts) || longest > recent.slice_bytes;
  if (recent.fast_path.bound() || !repeats_ || (may_be_alone && !recent.recalled)) return;
  recent.reach = std::max(call.send.total, call.recv.total) * element_bytes(call.type);
  recent.fast_path = FastPath(call, pipes_of(recent.facts));
}

void Communicator::bind(const Request& request, const RecentCall& recent, Call& call) {
  call.plan = recent.plan;
  call.window = recent.window;
  call.slice_bytes = recent.slice_bytes;
  call.fingerprint = recent.fingerprint;
  bind_arithmetic(request, ranks(), call);
  bind_layouts(request, call);
  const size_t bytes = std::max(call.send.total, call.recv.total) * element_bytes(call.type);
  call.receives = recent.receives;
  call.cache_bytes = crowd_.share(kCoreCache);
  // A card that reads beside the device leaves cores alone.
  const size_t lends_up_to = request.runner != nullptr && recent.lends_up_to > 0 ? SIZE_MAX : recent.lends_up_to;
  // Whoever only gives to a sum goes on before the others take it.
  const bool may_wait = recent.lends_up_to > 0 || recent.receives;
  if (request.lendable && bytes <= lends_up_to) {
    call.lending = Lending::kAlways;
  } else if (request.lendable && may_wait) {
    call.lending = Lending::kWithoutCopies;
  }
  call.runner = request.runner.get();
  bind_windows(request, mesh_->windows(), call);
  // Told before any window.
  if (is_reached(request.facts) && boards_.empty()) boards_ = mesh_->windows().begins(WindowTable::kSignals);
}

void Communicator::have_signals() {
  if (signals_ != nullptr) return;
  Result<std::unique_ptr<Segment>> segment = system_.memory.create(SignalBoard::bytes(ranks()));
  signals_ = std::make_unique<Signals>(ranks(), segment.ok() ? std::shared_ptr<Segment>(std::move(*segment)) : nullptr);
  mesh_->open_window(signals_->memory(), signals_->segment(), 0, WindowPurpose::kSignals);
}

Result<uint32_t> Communicator::register_memory(std::span<std::byte> memory) {
  have_signals();
  const bool has_signals = signals_->segment() != nullptr;  // by which peers see that we have given up a call
  if (on_device(memory)) {
    Result<std::shared_ptr<DevicePart>> part = device_part(*cuda::driver(), memory);
    HOCKET_TRY(part.status());
    if (has_signals && *part != nullptr) have_inbox();
    return mesh_->open_window(memory, has_signals ? std::move(*part) : nullptr, beyond_host(*cuda::driver(), memory),
                              WindowPurpose::kData);
  }
  const SharedHeap::Piece piece = process_heap().find(memory.data(), memory.size());
  const uint32_t number = mesh_->open_window(memory, has_signals ? piece.segment : nullptr, piece.offset);
  const bool lost = piece.segment != nullptr && process_heap().find(memory.data(), memory.size()).segment == nullptr;
  if (lost) mesh_->abort(taken_back(rank()));
  return number;
}

// With the first window of a device, and told before it: who knows of all parts of such a window knows of all inboxes
// that there will be.
void Communicator::have_inbox() {
  const bool is_wished = settings().ok() && settings()->device_low_latency;
  if (std::exchange(has_wished_inbox_, true) || !is_wished) return;
  if (ranks() > static_cast<Rank>(device::kMostLowLatencyRanks)) return;
  Result<std::shared_ptr<Inbox>> inbox = Inbox::make(*cuda::driver(), system_, ranks());
  const Status status = inbox.ok() ? tell_of_inbox(*inbox) : inbox.status();
  if (status.ok()) return;
  log_warn("{}rank {}: small calls on the device go by the hosts: {}", prefix_, rank(), status.message());
}

Status Communicator::tell_of_inbox(std::shared_ptr<Inbox> inbox) {
  Result<std::shared_ptr<DevicePart>> part = device_part(*cuda::driver(), inbox->memory());
  HOCKET_TRY(part.status());
  mesh_->open_window(inbox->memory(), std::move(*part), nullptr, WindowPurpose::kInboxes);
  inbox_ = std::move(inbox);
  return {};
}

Status Communicator::find_windows(Request& request) const {
  if (request.told || mesh_->windows().empty() || is_exact(request.facts)) return {};
  return hocket::find_windows(system_, *mesh_, options_.operation_timeout, request);
}

Status Communicator::give_up(const Request& request, const Call& call, Status why) {
  if (!is_reached(request.facts)) return why;
  signals_->board().given_up().store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the caller writes anything there
  const Builder* builder = find_builder(call.plan->collective, call.plan->algorithm);
  if (builder == nullptr || !builder->recv_pages) return why;
  const size_t bytes = call.recv.total * element_bytes(call.type);
  const Status taken = mesh_->take_back({call.recv.base, bytes});
  if (taken.ok()) return why;
  Status both = why;
  (void)tried([&] {
    both = {why.code(), fmt::format("{}; and its buffer: {}", why.message(), taken.message())};
    return Status();
  });
  return both;
}

Rank Communicator::given_up_by() const {
  std::atomic_thread_fence(std::memory_order_acquire);  // after what was read of their buffers
  for (Rank peer = 0; peer < static_cast<Rank>(boards_.size()); ++peer) {
    std::byte* const board = boards_[static_cast<size_t>(peer)];
    if (peer == rank() || board == nullptr) continue;
    if (SignalBoard({board, SignalBoard::bytes(ranks())}).given_up().load(std::memory_order_relaxed) != 0) return peer;
  }
  return -1;
}

Result<std::byte*> Communicator::Memory::at_least(size_t wanted) {
  if (wanted > size) {
    auto* fresh = static_cast<std::byte*>(::operator new(wanted, std::align_val_t{kAlignment}, std::nothrow));
    if (fresh == nullptr) return Status(Code::kSystem, fmt::format("no memory for {} bytes of scratch", wanted));
    bytes = {fresh, [](std::byte* memory) { ::operator delete(memory, std::align_val_t{kAlignment}); }};
    size = wanted;
  }
  return bytes.get();
}

Status Communicator::lend_memory(Call& call) {
  if (call.plan->scratch_chunks > 0) {
    const size_t bytes = Execution::scratch_bytes(call);
    Result<std::byte*> memory = call.runner != nullptr ? call.runner->scratch(bytes) : scratch_.at_least(bytes);
    if (!memory.ok()) return memory.status();
    call.scratch = *memory;
  }
  return {};
}

}  // namespace hocket
