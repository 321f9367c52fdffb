// Some of a job's ranks, which communicate with each other: PyTorch's process group.
//
//   const muster::Group trainers = job.new_group({0, 1, 2}, {.name = "trainers"});
//   if (trainers.is_member()) muster::DistributedDataParallel model(net, trainers);
//
// Functions that take a Group also take a Job, which means all its ranks: job.world(). Members have places in
// the group, from 0; ranks() and all messages have ranks of the job. A Group is a handle: copies share one
// state, which keeps the job, and leaves the group when the last copy is destroyed. Any thread can call the
// functions. All members must enter collectives in the same order.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace muster {

class Job;

// NCCL's settings for a group: those of ncclConfig_t, and PyTorch's additions. For an empty setting, NCCL
// uses its NCCL_* variable or its default. If there are no GPUs, the settings have no effect.
struct NcclOptions {
  // Runs the group's kernels at a higher priority than the program's.
  bool high_priority_stream = false;
  // Says whether calls of NCCL block during long work, such as connecting. Empty: PyTorch decides.
  std::optional<bool> blocking = std::nullopt;
  // The smallest and the largest number of thread blocks that a kernel of NCCL may use on the GPU.
  std::optional<int> min_ctas = std::nullopt;
  std::optional<int> max_ctas = std::nullopt;
  std::string net_name{};  // "Socket", "IB", or a plug-in's name
  // Creates the group's communicator from the job's communicator with ncclCommSplit. That is faster than a
  // new communicator, and the two share resources. For the job's own communicator, this option has no effect.
  bool split = false;
};

struct GroupOptions {
  // The library that carries the messages, as in InitOptions. Empty: the same as the job's.
  std::string backend{};
  // The longest time that a collective may take. Empty: the same as the job's.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::string name{};                              // for messages; empty: "group N"
  std::optional<NcclOptions> nccl = std::nullopt;  // empty: the job's
};

class Group {
 public:
  struct State;
  Group(const Job& job);  // NOLINT(google-explicit-constructor): the job's world
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

  int rank() const;                       // this process's place in the group; -1: not a member
  int size() const;                       // members
  const std::vector<int>& ranks() const;  // the members' ranks in the job, ascending
  bool is_member() const { return rank() >= 0; }
  const std::string& name() const;
  // Returns a text such as "group 'trainers' of ranks 0, 1, 2".
  std::string description() const;
  // `job_rank` is a rank of the job. Returns its place in this group. If the rank is not a member of the
  // group, throws std::invalid_argument.
  int place_of(int job_rank) const;

  Job job() const;
  c10::Device device() const;  // the job's
  // process_group() and store() throw std::logic_error on a rank that is not a member.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  // The group's part of the job's store. Other groups and other attempts do not see the keys in it.
  const c10::intrusive_ptr<c10d::Store>& store() const;

 private:
  friend State& state_of(const Group& group);
  std::shared_ptr<State> state_;
};

}  // namespace muster
