// Some of a job's ranks, which communicate among themselves: PyTorch's process group.
//
//   const muster::Group trainers = job.new_group({0, 1, 2}, {.name = "trainers"});
//   if (trainers.is_member()) muster::DistributedDataParallel model(net, trainers);
//
// Whatever takes a Group takes a Job as well, and then means all its ranks: job.world(). Ranks of a group
// have places, from 0; its ranks() are numbers in the job, and so are all ranks in messages. A Group is a
// handle: copies share one state, which keeps the job, and leaves the group when the last copy goes. Calls
// are safe from any thread; collectives must be entered by all of the group in the same order.
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

// How NCCL works for a group: ncclConfig_t, and what PyTorch has beside it. What is not said NCCL chooses,
// and its NCCL_* variables. Without GPUs nothing of it matters.
struct NcclOptions {
  // Kernels of the group go before those of the program.
  bool high_priority_stream = false;
  // Whether calls of NCCL wait for what takes long, such as connecting; PyTorch's choice if it is not said.
  std::optional<bool> blocking = std::nullopt;
  // Blocks of threads that a kernel takes of the GPU, at least and at most.
  std::optional<int> min_ctas = std::nullopt;
  std::optional<int> max_ctas = std::nullopt;
  std::string net_name{};  // "Socket", "IB", or that of a plug-in
  // The group's communicator is made out of the job's, by ncclCommSplit: faster than anew, and with its
  // resources. The job's has none to be made out of.
  bool split = false;
};

struct GroupOptions {
  // As in InitOptions; empty: what the job has.
  std::string backend{};
  // How long a collective may take; none: as in the job.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::string name{};                              // in messages; empty: "group N"
  std::optional<NcclOptions> nccl = std::nullopt;  // none: as in the job
};

class Group {
 public:
  struct State;
  Group(const Job& job);  // NOLINT(google-explicit-constructor): a job stands for its world
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

  int rank() const;                       // this process's place in the group; -1: it is not a member
  int size() const;                       // members
  const std::vector<int>& ranks() const;  // the members' ranks in the job, ascending
  bool is_member() const { return rank() >= 0; }
  const std::string& name() const;
  // "group 'trainers' of ranks 0, 1, 2".
  std::string description() const;
  // The place of a rank of the job; std::invalid_argument if it is not a member.
  int place_of(int job_rank) const;

  Job job() const;
  c10::Device device() const;  // the job's
  // Both throw std::logic_error on a rank that is not a member.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  // Keys of this group, in this attempt.
  const c10::intrusive_ptr<c10d::Store>& store() const;

 private:
  friend State& state_of(const Group& group);
  std::shared_ptr<State> state_;
};

}  // namespace muster
