#include <fmt/format.h>
#include <muster/comm/collectives.h>
#include <muster/comm/job.h>
#include <stdexcept>
#include <torch/csrc/autograd/grad_mode.h>
#include <utility>

#include "runtime/comm/call.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/packed.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"

namespace muster {

struct Work::State {
  Group group;
  std::string text;
  Packed packed;
  bool receives;
  int peer;  // the peer's place; for a receive from any rank: any place, because Gloo has connected all
  c10::intrusive_ptr<c10d::Work> work;
  bool arrived = false;

  ~State() {
    if (receives && work != nullptr && !arrived && packed.bytes().is_cpu())
      state_of(group).abandoned_peer = peer;
  }
  void wait() {
    step_time().meets(state_of(group).key);
    const InStepPart waiting(kCommunicatePart);
    const Traced in_trace(TraceTrack::kCommunication, text);
    try {
      work->wait();
    } catch (const std::exception&) {
      fail_for_peer(group, text);
    }
    arrived = true;
    if (!receives) return;
    const torch::NoGradGuard no_grad;
    packed.unpack();
  }
};

Work::Work(std::unique_ptr<State> state) : state_(std::move(state)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

void Work::wait() {
  if (state_ == nullptr) throw std::logic_error("Work::wait: called a second time");
  const std::unique_ptr<State> state = std::move(state_);
  state->wait();
}

namespace {

// Starts to send or to receive a tensor. `start` gets the bytes of the tensor, starts the operation, and sets
// `peer`. `receives` is true if the operation fills the bytes.
template <class Start>
std::unique_ptr<Work::State> start_between(const Group& group, const std::string& text,
                                           const at::Tensor& tensor, bool receives, const Start& start) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{} in the {}: {}", text, group.description(), why));
  };
  require_member(group, text);
  refuse_if_given_up(group, [&] { return text; });
  if (!tensor.defined() || tensor.layout() != at::kStrided) refuse("the tensor is undefined or sparse");
  const torch::NoGradGuard no_grad;
  const int other = group.rank() == 0 ? 1 : 0;
  std::unique_ptr<Work::State> state(
      new Work::State{group, text, Packed(tensor), receives, other, /*work=*/nullptr});
  std::vector<at::Tensor> bytes{state->packed.bytes()};
  try {
    state->work = start(bytes, state->peer);
  } catch (const c10::DistError&) {  // NCCL: it cannot connect with the peer
    fail_for_peer(group, text);
  } catch (const c10::Error& error) {
    refuse(error.what_without_backtrace());
  } catch (const std::invalid_argument&) {
    throw;
  } catch (const std::exception&) {  // Gloo: the connection is already closed
    fail_for_peer(group, text);
  }
  return state;
}

int peer_place(const Group& group, int job_rank, const char* function) {
  const int place = group.place_of(job_rank);
  if (place == group.rank())
    throw std::invalid_argument(fmt::format("{}: rank {} is this rank itself", function, job_rank));
  return place;
}

// Starts a message. The group can have NCCL backends for messages, one for each sender and receiver. They
// send the tensors of one GPU. If the tensor is on that GPU, this function uses the backend for messages from
// `from` to `to`. Otherwise it uses the group's process group.
template <class Start>
c10::intrusive_ptr<c10d::Work> start_message(const Group& group, const at::Tensor& bytes, int from, int to,
                                             const Start& start) {
  std::optional<NcclMessages>& over_nccl = state_of(group).messages;
  if (over_nccl && bytes.device() == over_nccl->device()) return start(over_nccl->between(from, to));
  return start(*group.process_group());
}

}  // namespace

Work isend(const Group& group, const at::Tensor& tensor, int dst, int tag) {
  return Work(start_between(group, fmt::format("send of {} to rank {}", shape_text(tensor), dst), tensor,
                            false, [&](std::vector<at::Tensor>& bytes, int& peer) {
                              peer = peer_place(group, dst, "send");
                              return start_message(
                                  group, bytes.front(), group.rank(), peer,
                                  [&](auto& carrier) { return carrier.send(bytes, peer, tag); });
                            }));
}

Work irecv(const Group& group, const at::Tensor& tensor, int src, int tag) {
  return Work(start_between(group, fmt::format("recv of {} from rank {}", shape_text(tensor), src), tensor,
                            true, [&](std::vector<at::Tensor>& bytes, int& peer) {
                              peer = peer_place(group, src, "recv");
                              return start_message(
                                  group, bytes.front(), peer, group.rank(),
                                  [&](auto& carrier) { return carrier.recv(bytes, peer, tag); });
                            }));
}

void connect_for_messages(const Group& group, int peer) {
  std::optional<NcclMessages>& over_nccl = state_of(group).messages;
  if (!over_nccl) return;
  try {
    over_nccl->connect(peer);
  } catch (const std::exception&) {
    fail_for_peer(group,
                  fmt::format("connection with rank {}", group.ranks()[static_cast<std::size_t>(peer)]));
  }
}

void send(const Group& group, const at::Tensor& tensor, int dst, int tag) {
  isend(group, tensor, dst, tag).wait();
}

int recv(const Group& group, const at::Tensor& tensor, std::optional<int> src, int tag) {
  if (src) {
    irecv(group, tensor, *src, tag).wait();
    return *src;
  }
  const auto state = start_between(
      group, fmt::format("recv of {} from any rank", shape_text(tensor)), tensor, true,
      [&](std::vector<at::Tensor>& bytes, int&) { return group.process_group()->recvAnysource(bytes, tag); });
  state->wait();
  return group.ranks()[static_cast<std::size_t>(state->work->sourceRank())];
}

void send_object(const Group& group, const std::string& object, int dst, int tag) {
  send(group, at::full({1}, static_cast<std::int64_t>(object.size()), at::kLong), dst, tag);
  if (!object.empty()) send(group, tensor_of(object), dst, tag);
}

std::string recv_object(const Group& group, int src, int tag) {
  const at::Tensor length = at::empty({1}, at::kLong);
  recv(group, length, src, tag);
  const at::Tensor bytes = at::empty({length.item<std::int64_t>()}, at::kByte);
  if (bytes.numel() > 0) recv(group, bytes, src, tag);
  return string_of(bytes);
}

}  // namespace muster
