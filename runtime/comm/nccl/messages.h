// Messages between two members of a group, for tensors that NCCL carries.
//
// An NCCL communicator runs the operations of each rank in that rank's order. With one communicator, two
// ranks that both receive before they send would wait forever. So a pair of ranks has one communicator, with
// a stream of its own, for each direction. These are not split off the job's communicator, because they would
// then share one stream. Use NcclMessages on the training thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <functional>
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace muster {

enum class Direction : std::uint8_t { kUp, kDown };  // to a higher or a lower place in the group

class NcclMessages {
 public:
  using Make = std::function<c10::intrusive_ptr<c10d::Backend>(Direction)>;
  // `rank` is this rank's place. The first connect() creates both backends.
  NcclMessages(int rank, c10::Device device, Make make);

  // Returns when the peer has called connect() for this rank as well; throws c10::Error if the peer does not.
  // A rank that connects with several peers must do so in ascending order of places. Otherwise the ranks can
  // wait for each other in a circle.
  void connect(int peer);
  // Connects two places and returns the backend for messages from one to the other. One place must be this
  // rank's.
  c10d::Backend& between(int from, int to);

  c10::Device device() const { return device_; }
  // Null: not created yet.
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
