// A worker's view of its job: its rank, the other ranks, and how to reach them.
//
// Call init() first in main. It reads the environment that the launcher (or torchrun) has set, connects to
// the store, creates the process group and starts the heartbeat. Without a launcher it returns a world of one
// rank, so the same program runs alone. A Job is a handle: copies share one state, which leaves the world
// when the last copy is destroyed. Any thread can call the functions. All ranks must enter collectives in the
// same order. A wrong or missing setting throws std::invalid_argument, which names the setting; unreachable
// peers throw std::runtime_error.
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
  // that all ranks see and that must not exist before the first rank starts). The last two need rank and
  // world_size.
  std::string init_method = "env://";
  int rank = -1;
  int world_size = -1;
  // The longest time that a collective, or a wait on the store, may take. Empty: 30 minutes, and 10 minutes
  // for NCCL, as in torch.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // The library behind process groups.
  // - "gloo": for CPU tensors; device() is the CPU.
  // - "nccl": NCCL for CUDA tensors, and Gloo for CPU tensors. Needs GPUs.
  // - "mpi": Open MPI for all tensors. MPI_COMM_WORLD must be the job.
  // - "shm": shared memory for CPU tensors; device() is the CPU. All ranks must be on one host.
  // - Empty: the value of MUSTER_BACKEND, which `launch --backend` sets. If that is not set: "nccl" if a GPU
  //   is visible, else "gloo".
  std::string backend{};
  // The options of all groups that have no NCCL options of their own.
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

  // "cuda:<local_rank>" when a GPU is visible and the backend uses it, else "cpu".
  c10::Device device() const;
  // The job's backend; by default Gloo for CPU tensors and NCCL for CUDA tensors.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  // The store has only keys of this attempt, none of an earlier one.
  const c10::intrusive_ptr<c10d::Store>& store() const;

  const std::string& job_id() const;          // empty without a launcher
  std::uint64_t attempt() const;              // the launcher's number of this start; 0 without a launcher
  int restart_count() const;                  // restarts before this start
  const std::string& checkpoint_dir() const;  // empty if the launcher has none

  Group world() const;  // all ranks
  // Creates a group of these ranks, in ascending order as in PyTorch.
  // - Collective over the job: every rank, member or not, must call it in the same order and with the same
  //   arguments.
  // - If the arguments differ or are invalid, all ranks throw std::invalid_argument with the same message.
  // - On a rank that is not in `ranks`, is_member() of the group is false.
  Group new_group(const std::vector<int>& ranks, const GroupOptions& options = {}) const;

  // Waits until all ranks have called barrier().
  void barrier() const;

 private:
  friend class Group;
  friend Reports& reports_of(const Job& job);
  friend State& state_of(const Job& job);
  std::shared_ptr<State> state_;
};

// Joins the world that the environment or the options describe. Throws std::logic_error if the process calls
// init() a second time.
// If main does not catch a later exception, the process prints the exception as "rank R: Type: text" (under a
// launcher as "Type: text"), writes it to torchrun's error file, and ends with exit code 1.
// Changes the whole process:
// - makes stdout line-buffered unless it is unbuffered
// - ignores SIGPIPE unless the program has set a handler
// - makes the C library keep the memory that a step frees
Job init(const InitOptions& options = {});
// Works as init(options), and also replaces argc and argv by this rank's own arguments. In a sweep with a
// warm start (docs/warm_start.md), main can get another trial's arguments, so read them only after this call.
Job init(int& argc, char**& argv, const InitOptions& options = {});

}  // namespace muster
