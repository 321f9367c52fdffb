// Sends messages between two members of a group by NCCL.
//
// Each rank gives an NCCL communicator its operations in some order, and the communicator keeps this order.
// If two ranks had one communicator, and both called recv() before send(), they would wait forever. So each
// pair of ranks has two communicators, one for each direction, and each communicator has a stream of its own.
// NCCL could split these communicators off the job's communicator. But then they would share one stream.
//
// Use NcclMessages on the training thread.
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
  // `rank` is this rank's place in the group. The first call of connect() creates the backends of both
  // directions.
  NcclMessages(int rank, c10::Device device, Make make);

  // Connects this rank with the peer. Returns when the peer has called connect() for this rank, too. If the
  // peer does not do so, throws c10::Error. A rank that connects with several peers must do so in ascending
  // order of their places. Otherwise the ranks could wait for each other in a circle.
  void connect(int peer);
  // Connects the ranks at two places of the group. One of them must be this rank. Returns the backend for
  // messages from place `from` to place `to`.
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
