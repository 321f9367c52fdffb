// A worker's view of its job: who it is, who the others are, and how to reach them.
//
// init() comes first in main: it reads what the launcher (or torchrun) put into the environment, connects to
// the store, makes the process group and starts the heartbeat. Without a launcher it gives a world of one, so
// the same program runs alone. A Job is a handle: copies share one state, which leaves the world when the
// last copy goes. Calls are safe from any thread; collectives must be entered by all ranks in the same order.
// Wrong or missing settings throw std::invalid_argument, which names the setting; unreachable peers throw
// std::runtime_error.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <muster/comm/group.h>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace muster {

struct InitOptions {
  // "env://" (torchrun's variables), "tcp://host:port" (rank 0 serves the store) or "file:///path" (a file
  // all ranks see, which must not exist before the first rank starts). The last two need rank and world_size.
  std::string init_method = "env://";
  int rank = -1;
  int world_size = -1;
  // How long a collective or a wait on the store may take: 30 minutes, for NCCL 10, as in torch.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // What process groups are made of. "gloo": Gloo, for CPU tensors, and device() is the CPU. "nccl": NCCL for
  // those of GPUs, which must be there, and Gloo for the others. "mpi": Open MPI for all, whose
  // MPI_COMM_WORLD must be the job. "shm": memory that the ranks share, which must be on one host, for CPU
  // tensors, and device() is the CPU. Empty: what MUSTER_BACKEND says, which `launch --backend` sets; else
  // Gloo, and NCCL when a GPU is visible.
  std::string backend{};
  // Of all groups that are not given their own.
  NcclOptions nccl{};
};

class Reports;

class Job {
 public:
  struct State;
  explicit Job(std::shared_ptr<State> state) : state_(std::move(state)) {}

  int rank() const;
  int world_size() const;
  int local_rank() const;  // among the workers of this node
  int local_world_size() const;
  int node_rank() const;  // torchrun's GROUP_RANK
  int node_count() const;

  // "cuda:<local_rank>" when a GPU is visible, else "cpu".
  c10::Device device() const;
  // Of the job's backend; without one Gloo for CPU tensors, NCCL for CUDA tensors.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  // Keys of this attempt only: whatever an earlier attempt wrote is not seen.
  const c10::intrusive_ptr<c10d::Store>& store() const;

  const std::string& job_id() const;          // empty without a launcher
  std::uint64_t attempt() const;              // the launcher's number of this start; 0 without one
  int restart_count() const;                  // restarts before this start
  const std::string& checkpoint_dir() const;  // empty if the launcher names none

  Group world() const;  // all ranks
  // A group of these ranks, in ascending order as in PyTorch. Collective over the job: every rank calls it,
  // members or not, in the same order and with the same arguments; where one asks for something else, or for
  // what cannot be, all throw std::invalid_argument with the same line. On a rank that is not among them the
  // group has no place for it: is_member() is false.
  Group new_group(const std::vector<int>& ranks, const GroupOptions& options = {}) const;

  // Returns when all ranks have entered it.
  void barrier() const;

 private:
  friend class Group;
  friend Reports& reports_of(const Job& job);
  friend State& state_of(const Job& job);
  std::shared_ptr<State> state_;
};

// Joins the world that the environment or the options describe, once in a process: std::logic_error the
// second time. An exception that main does not catch afterwards is printed as "rank R: Type: text" (under a
// launcher as "Type: text"), left in torchrun's error file, and ends the process with exit code 1.
// For the whole process: stdout is written line by line, unless it has no buffer; SIGPIPE is ignored, unless
// the program has set it; the C library keeps the memory that a step frees.
Job init(const InitOptions& options = {});

}  // namespace muster
