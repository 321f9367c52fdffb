// The state behind a Job and a Group, for the runtime's own code. init() and spawn() create Jobs with join(),
// once they know their world. Other code uses reports_of() to report to the agent.
//
// Not part of the public headers. A Job's state outlives the states of all its groups.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <muster/comm/job.h>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "runtime/comm/address.h"
#include "runtime/comm/nccl/messages.h"
#include "runtime/comm/process_group.h"
#include "runtime/comm/world.h"
#include "runtime/rank/reports.h"

namespace muster {

struct Group::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();
  // Finishes the work on GPUs. Without this call, destroying the group aborts the work. Call it before the
  // job is destroyed: the process group needs the job's store, but the program can hold the process group
  // longer than the job.
  void shut_down() noexcept;
  // Closes Gloo's connections if a receive was abandoned. Otherwise Gloo's thread would wait forever.
  void close_abandoned() noexcept;
  // Call it before this rank leaves the job. Writes to the group's store how many of the group's collectives
  // this rank has entered.
  void leave_word(const Job::State& in) const noexcept;
  // Returns why NCCL has given up this group; "" if it has not, or if the group has no NCCL.
  std::string nccl_failure() const;
  // NCCL's backends for collectives, for messages to higher places, and for messages to lower places. Null:
  // none has been created.
  std::array<c10::intrusive_ptr<c10d::Backend>, 3> nccl_backends() const;

  std::string name;
  // The prefix of the group's keys in the job's store, and the group's name in step_time()
  // (rank/step_time.h). Empty for the world.
  std::string key;
  std::vector<int> ranks;
  int rank = -1;
  std::weak_ptr<Job::State> job;
  std::shared_ptr<Job::State> keeps_job;  // null for the world, which is part of the job
  // Null on a rank that is not a member.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  // NCCL runs the collectives and messages of CUDA tensors. Null and empty: the group has no NCCL.
  c10::intrusive_ptr<c10d::Backend> nccl;
  std::optional<NcclMessages> messages;
  std::atomic<std::int64_t> call_count = 0;  // collectives that this rank has entered
  // If a receive into CPU memory was abandoned, the place of its peer; -1: none was.
  std::atomic<int> abandoned_peer = -1;
};

struct Job::State {
  State(const World& description, std::optional<std::chrono::milliseconds> chosen_timeout,
        const NcclOptions& chosen_nccl, std::optional<int> listen_fd);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // Ends the process with exit code 1 if NCCL has given up a group and no exception has reported that.
  ~State();
  void end_gpu_work() noexcept;

  World world;
  // Is constructed before the store: connecting to the store can take minutes, and heartbeats must show
  // meanwhile that this rank is alive.
  Reports reports;
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;
  NcclOptions nccl;
  c10::intrusive_ptr<c10d::Store> store;
  Group::State all;
  std::atomic<int> formation_count = 0;  // groups and meshes formed so far; the same on all ranks
  std::once_flag presence_shown;
  Listener presence;  // nobody accepts the connections; the kernel refuses them once this process is gone
  std::atomic<TimePoint> presence_cleared_at = TimePoint();
};

// Opens the store (serves it on listen_fd, if given), creates the process group, and waits until all ranks
// have created theirs.
Job join(const World& world, std::optional<std::chrono::milliseconds> timeout, const NcclOptions& nccl,
         std::optional<int> listen_fd);

// Creates the group's backends. NCCL's backends for messages are created by the first message.
void set_backends(Group::State& state, const World& world, const GroupSetup& setup);

// The state of the newest Job; null before the first Job, and after it is destroyed.
std::shared_ptr<Job::State> newest_job_state();
// These references are valid while a copy of the job or group exists.
Reports& reports_of(const Job& job);
Job::State& state_of(const Job& job);
Group::State& state_of(const Group& group);

}  // namespace muster
