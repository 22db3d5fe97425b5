// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sending to, and receiving from, single ranks.
#include "backend.h"
#include "errors.h"

namespace hocket_torch {
namespace {

const char* name_of(c10d::OpType type) {
  switch (type) {
    case c10d::OpType::SEND:
      return "send";
    case c10d::OpType::RECV:
      return "recv";
    default:
      return "recv from any source";
  }
}

}  // namespace

Elements Backend::checked(const Transfer& transfer) const {
  const Caller by = caller(name_of(transfer.type));
  const at::Tensor& tensor = only(by, transfer.tensors);
  const Elements elements = moved(by, "tensor", tensor);
  if (tensor.is_cpu()) return elements;
  TORCH_CHECK(transfer.type != c10d::OpType::RECVANYSOURCE, "hocket rank ", by.rank, ": ", by.call,
              ": the tensor is on ", tensor.device(), "; name the source, or receive into a CPU tensor");
  TORCH_CHECK(transfer.tag == 0, "hocket rank ", by.rank, ": ", by.call, ": tag ", transfer.tag, " for a tensor on ",
              tensor.device(), "; only CPU tensors have tags, others match in the order in which they were sent");
  return elements;
}

WorkPtr Backend::send(Tensors& tensors, int to, int tag) {
  const Transfer asked{c10d::OpType::SEND, tensors, to, tag};
  if (Batch* batch = batches_.current()) return batch->add(getRank(), asked);
  const Elements from = checked(asked);
  CallTensors inputs{c10d::OpType::SEND, "hocket:send", tensors, {}};
  if (tensors.front().is_cuda()) {
    return transfer_on(tensors.front().device(), std::move(inputs), 2 * to,
                       [&](hocketComm_t comm, hocketStream_t stream) {
                         return hocketSend(from.data, from.count, from.type, to, comm, stream);
                       });
  }
  if (tag != 0) {
    const at::Tensor header = Mailbox::header(tensors.front(), tag);
    inputs.inputs.push_back(header);
    auto work = transfer(std::move(inputs), tag);
    mailbox_->send(work, header, tensors.front(), to, own_limit(c10d::kUnsetTimeout));
    return work;
  }
  auto work = transfer(std::move(inputs), tag);
  const std::lock_guard lock(transferring_);
  begin(*work, lanes_.to(to), [&](hocketComm_t comm, hocketStream_t stream) {
    return hocketSend(from.data, from.count, from.type, to, comm, stream);
  });
  return work;
}

WorkPtr Backend::recv(Tensors& tensors, int from, int tag) {
  const Transfer asked{c10d::OpType::RECV, tensors, from, tag};
  if (Batch* batch = batches_.current()) return batch->add(getRank(), asked);
  const Elements to = checked(asked);
  CallTensors outputs{c10d::OpType::RECV, "hocket:recv", {}, tensors};
  if (tensors.front().is_cuda()) {
    auto work = transfer_on(tensors.front().device(), std::move(outputs), 2 * from + 1,
                            [&](hocketComm_t comm, hocketStream_t stream) {
                              return hocketRecv(to.data, to.count, to.type, from, comm, stream);
                            });
    work->comes_from(from);
    return work;
  }
  if (tag != 0) return receive_tagged(std::move(outputs), from, tag);
  auto work = transfer(std::move(outputs), tag);
  const std::lock_guard lock(transferring_);
  receive(*work, to, from);
  return work;
}

void Backend::receive(Work& work, const Elements& to, int from) {
  work.comes_from(from);
  begin(work, lanes_.from(from), [&](hocketComm_t comm, hocketStream_t stream) {
    return hocketRecv(to.data, to.count, to.type, from, comm, stream);
  });
}

void Backend::begin(Work& work, const std::shared_ptr<Lane>& lane, Issue issue) {
  check(issue(transfers_, lane->stream()), [&] { return work.about(); });
  work.ends_on(lane, own_limit(c10d::kUnsetTimeout));
  lane->hold(c10::intrusive_ptr<Work>::reclaim_copy(&work));
}

WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  const Transfer asked{c10d::OpType::RECVANYSOURCE, tensors, Mailbox::kAnybody, tag};
  if (Batch* batch = batches_.current()) return batch->add(getRank(), asked);
  const Elements to = checked(asked);
  CallTensors outputs{c10d::OpType::RECVANYSOURCE, "hocket:recv_any_source", {}, tensors};
  if (tag != 0) return receive_tagged(std::move(outputs), Mailbox::kAnybody, tag);
  auto work = transfer(std::move(outputs), tag);
  const auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  work->begins_when(
      [self, to](Work& found) {
        const std::lock_guard lock(self->transferring_);
        int from = -1;
        check(hocketProbe(self->transfers_, &from), [&] { return found.about(); });
        if (from >= 0) self->receive(found, to, from);
        return from >= 0;
      },
      options_->timeout);
  return work;
}

WorkPtr Backend::receive_tagged(CallTensors tensors, int from, int tag) {
  const at::Tensor into = tensors.outputs.front();
  auto work = transfer(std::move(tensors), tag);
  const std::weak_ptr<Mailbox> mailbox = mailbox_;
  work->begins_when(
      [mailbox](Work& awaited) {
        const auto alive = mailbox.lock();
        return alive == nullptr || alive->look(awaited);
      },
      options_->timeout);
  mailbox_->post(work, into, from, tag);
  return work;
}

c10::intrusive_ptr<DeviceWork> Backend::transfer_on(c10::Device device, CallTensors tensors, int purpose, Issue issue) {
  const std::lock_guard lock(transferring_);
  auto work = c10::make_intrusive<DeviceWork>(getRank(), 0, std::move(tensors), transfers_, aborted_,
                                              transfer_streams_.of(device, purpose));
  work->issue(issue);
  return work;
}

c10::intrusive_ptr<Work> Backend::transfer(CallTensors tensors, int tag) {
  return c10::make_intrusive<Work>(getRank(), 0, std::move(tensors), tag == 0 ? transfers_ : tagged_);
}

}  // namespace hocket_torch
