#include "runtime/comm/nccl_messages.h"

#include <ATen/ops/zeros.h>
#include <utility>
#include <vector>

namespace muster {

NcclMessages::NcclMessages(int rank, c10::Device device, Make make)
    : rank_(rank), device_(device), make_(std::move(make)) {}

void NcclMessages::connect(int peer) {
  if (connected_.contains(peer)) return;
  if (up_ == nullptr) {
    up_ = make_(Direction::kUp);
    down_ = make_(Direction::kDown);
  }
  constexpr int kTag = 0;
  std::vector<at::Tensor> nothing{at::zeros({1}, at::device(device_).dtype(at::kByte))};
  const bool to_later = rank_ < peer;
  for (c10d::Backend* const backend : {up_.get(), down_.get()}) {
    const bool sends = (backend == up_.get()) == to_later;
    (sends ? backend->send(nothing, peer, kTag) : backend->recv(nothing, peer, kTag))->wait();
  }
  connected_.insert(peer);
}

c10d::Backend& NcclMessages::between(int from, int to) {
  connect(from == rank_ ? to : from);
  return from < to ? *up_ : *down_;
}

}  // namespace muster
