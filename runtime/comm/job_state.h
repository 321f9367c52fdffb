// The state that a Job or a Group has, for code inside the runtime. When init() and spawn() know the world,
// they call join() to create the Job. Other code calls reports_of() to report to the agent.
//
// These classes are not part of the public headers. A Job's state lives longer than the states of all its
// groups.
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
  // Waits until the group's work on GPUs has ended. If the group is destroyed without this call, its work is
  // aborted. Call it before the job is destroyed. The reason is that the process group needs the job's store,
  // but the program can keep the process group longer than the job.
  void shut_down() noexcept;
  // The program can drop the Work of an irecv() that has not ended. Gloo's thread would wait for its data
  // forever. So if there was such an irecv(), this function closes Gloo's connections.
  void close_abandoned() noexcept;
  // Call it before this rank leaves the job. Writes to the group's store how many of the group's collectives
  // this rank has entered.
  void leave_word(const Job::State& in) const noexcept;
  // If NCCL has given up this group, returns the reason. Otherwise, or if the group has no NCCL, returns "".
  std::string nccl_failure() const;
  // Returns three backends of NCCL: the one for collectives, the one for messages to higher places, and the
  // one for messages to lower places. A backend that has not been created is null.
  std::array<c10::intrusive_ptr<c10d::Backend>, 3> nccl_backends() const;

  std::string name;
  // All keys of the group in the job's store begin with this text. It is also the name of the group in
  // step_time() (rank/step_time.h). It is empty for the world.
  std::string key;
  std::vector<int> ranks;
  int rank = -1;
  std::weak_ptr<Job::State> job;
  std::shared_ptr<Job::State> keeps_job;  // null for the world, which is part of the job
  // Null on a rank that is not a member.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  // NCCL runs the collectives and the messages of CUDA tensors. If the group has no NCCL, `nccl` is null and
  // `messages` is empty.
  c10::intrusive_ptr<c10d::Backend> nccl;
  std::optional<NcclMessages> messages;
  std::atomic<std::int64_t> call_count = 0;  // collectives that this rank has entered
  // The program can drop the Work of an irecv() that has not ended. If the irecv() was for CPU memory, this
  // is the place of its sender. -1 means that there was no such irecv().
  std::atomic<int> abandoned_peer = -1;
};

struct Job::State {
  State(const World& description, std::optional<std::chrono::milliseconds> chosen_timeout,
        const NcclOptions& chosen_nccl, std::optional<int> listen_fd);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // If NCCL has given up a group and no exception has reported this, the destructor ends the process with
  // exit code 1.
  ~State();
  void end_gpu_work() noexcept;

  World world;
  // `reports` comes before the store, so it is constructed first. Connecting to the store can take minutes.
  // During that time, `reports` already sends heartbeats, which show that this rank is alive.
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

// Opens the store. If `listen_fd` is given, this rank serves the store at this socket. Then join() creates
// the process group, and waits until all ranks have created it.
Job join(const World& world, std::optional<std::chrono::milliseconds> timeout, const NcclOptions& nccl,
         std::optional<int> listen_fd);

// Creates the backends of the group. But the NCCL backends for messages are created later, by the first
// message.
void set_backends(Group::State& state, const World& world, const GroupSetup& setup);

// Returns the state of the newest Job. Returns null if there is no Job yet, or if it has been destroyed.
std::shared_ptr<Job::State> newest_job_state();
// Each of the following functions returns a reference, which is valid as long as a copy of the job or of the
// group exists.
Reports& reports_of(const Job& job);
Job::State& state_of(const Job& job);
Group::State& state_of(const Group& group);

}  // namespace muster
