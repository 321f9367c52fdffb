#include "runtime/comm/nccl/messages.h"

#include <ATen/ops/zeros.h>
#include <utility>
#include <vector>

namespace muster {

NcclMessages::NcclMessages(int rank, c10::Device device, Make make)
    : rank_(rank), device_(device), make_(std::move(make)) {}

void NcclMessages::connect(int peer) {
  if (connected_.contains(peer)) return;
  if (up_ == nullptr) {
    auto up = make_(Direction::kUp);
    down_ = make_(Direction::kDown);
    up_ = std::move(up);
  }
  // torch creates a pair's communicator with its first message.
  constexpr int kTag = 0;
  std::vector<at::Tensor> nothing{at::zeros({1}, at::device(device_).dtype(at::kByte))};
  if (rank_ < peer) {
    up_->send(nothing, peer, kTag)->wait();
    down_->recv(nothing, peer, kTag)->wait();
  } else {
    up_->recv(nothing, peer, kTag)->wait();
    down_->send(nothing, peer, kTag)->wait();
  }
  connected_.insert(peer);
}

c10d::Backend& NcclMessages::between(int from, int to) {
  connect(from == rank_ ? to : from);
  return from < to ? *up_ : *down_;
}

}  // namespace muster
