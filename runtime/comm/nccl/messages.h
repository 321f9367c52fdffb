// Messages between two members of a group, of tensors that NCCL carries.
//
// A communicator of NCCL does what two ranks ask of it in the order in which each asks: where both receive
// before they send, neither gets anything. So a pair has one communicator, with a stream of its own, for each
// direction. Of a communicator that is split off, messages to all ranks would share one stream, so these are
// made anew. For the training thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <functional>
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace muster {

enum class Direction : std::uint8_t { kUp, kDown };  // to a later place in the group, to an earlier one

class NcclMessages {
 public:
  using Make = std::function<c10::intrusive_ptr<c10d::Backend>(Direction)>;
  // `rank` is this rank's place. The first connect() makes both backends.
  NcclMessages(int rank, c10::Device device, Make make);

  // Returns when the peer has come to connect with this rank as well; throws c10::Error if it does not. Ranks
  // that connect with several do so in ascending order of the peers' places, or they may wait for each other
  // in a circle.
  void connect(int peer);
  // For a message between two places, one of which is this rank's. Connects them first.
  c10d::Backend& between(int from, int to);

  c10::Device device() const { return device_; }
  // Null: not made yet.
  const c10::intrusive_ptr<c10d::Backend>& up() const { return up_; }
  const c10::intrusive_ptr<c10d::Backend>& down() const { return down_; }

 private:
  int rank_;
  c10::Device device_;
  Make make_;
  c10::intrusive_ptr<c10d::Backend> up_;
  c10::intrusive_ptr<c10d::Backend> down_;
  std::set<int> connected_;  // places
};

}  // namespace muster
