// What stands behind a Job and a Group, and what the runtime does with Jobs that programs do not: makes them,
// as init() and spawn() have it in common, once they know their world, and speaks for them to the agent.
//
// Not part of the public headers. A Job's state goes after those of all its groups.
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
  // What is under way on GPUs is finished; a group that merely goes aborts it. Somebody may still hold the
  // process group, and the store that it needs goes with the job.
  void shut_down() noexcept;
  // Closes Gloo's connections if a receive was abandoned: its thread would wait for that for ever.
  void close_abandoned() noexcept;
  // In the group's store, before this rank leaves the job: how many of its collectives it has done its part
  // of.
  void leave_word(const Job::State& in) const noexcept;
  // Why NCCL has given this group up; empty: it has not, or the group has no NCCL.
  std::string nccl_failure() const;
  // NCCL's backends for collectives, for messages up and for messages down. Null: it has not been made.
  std::array<c10::intrusive_ptr<c10d::Backend>, 3> nccl_backends() const;

  std::string name;
  // What its keys in the job's store begin with, and the word for it in steps (report/step_time.h). Empty:
  // the world's.
  std::string key;
  std::vector<int> ranks;
  int rank = -1;
  std::weak_ptr<Job::State> job;
  std::shared_ptr<Job::State> keeps_job;  // null for the world, which is part of the job
  // Null on a rank that is not a member.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  // NCCL carries out the collectives of tensors on GPUs, and carries their messages. Null and empty: the
  // group has no NCCL.
  c10::intrusive_ptr<c10d::Backend> nccl;
  std::optional<NcclMessages> messages;
  std::atomic<std::int64_t> call_count = 0;  // collectives that this rank has entered
  // The peer's place, of a receive into memory of the CPU that was never completed; -1: there is none.
  std::atomic<int> abandoned_peer = -1;
};

struct Job::State {
  State(const World& description, std::optional<std::chrono::milliseconds> chosen_timeout,
        const NcclOptions& chosen_nccl, std::optional<int> listen_fd);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // Ends the process with exit code 1 if a group of GPUs was given up, and nobody has been told.
  ~State();
  void end_gpu_work() noexcept;

  World world;
  // Before the store: connecting may take minutes, and the agent shall see that this rank lives.
  Reports reports;
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;
  NcclOptions nccl;
  c10::intrusive_ptr<c10d::Store> store;
  Group::State all;
  std::atomic<int> formation_count = 0;  // of groups and meshes: the same on all ranks
  std::once_flag presence_shown;
  Listener presence;  // nobody answers there: a connection is refused when this process is gone
  std::atomic<TimePoint> presence_cleared_at = TimePoint();
};

// Opens the store (a server on listen_fd, if given), makes the process group and waits until all ranks have
// theirs.
Job join(const World& world, std::optional<std::chrono::milliseconds> timeout, const NcclOptions& nccl,
         std::optional<int> listen_fd);

// Makes the group's backends. The first message over NCCL makes those for messages.
void set_backends(Group::State& state, const World& world, const GroupSetup& setup);

// Of the Job that was made last; null before there is one, and when it is gone.
std::shared_ptr<Job::State> newest_job_state();
// As long as one of the job's copies is there.
Reports& reports_of(const Job& job);
Job::State& state_of(const Job& job);
Group::State& state_of(const Group& group);

}  // namespace muster
