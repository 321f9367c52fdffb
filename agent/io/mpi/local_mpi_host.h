// Serves the MPI ranks of this agent. It uses the PMIx module, or sockets for PMI-1. It also makes a
// directory in /dev/shm for the shared memory of the ranks.
//
// When a rank starts, LocalProcesses asks this object for the things that the rank needs. Call all functions
// on the one thread of the io_context. Calls from PMIx's thread are posted to the io_context.
#pragma once

#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/start/environment.h"
#include "agent/io/guardian.h"
#include "agent/io/mpi/mpi_host.h"
#include "agent/io/mpi/pmi_server.h"
#include "agent/io/mpi/pmix_library.h"
#include "agent/io/mpi/segments.h"
#include "common/net/asio.h"

namespace muster::agent {

class LocalMpiHost final : public MpiHost, private PmixListener {
 public:
  struct Setting {  // all references must outlive this object
    asio::io_context& io;
    Guardian& guardian;
    NodeId node;
    Incarnation incarnation;
    // Called with remarks for the user.
    std::function<void(const std::string&)> remark;
  };
  explicit LocalMpiHost(Setting setting) : setting_(std::move(setting)), lookout_(setting_.io) {}
  LocalMpiHost(const LocalMpiHost&) = delete;
  LocalMpiHost& operator=(const LocalMpiHost&) = delete;
  ~LocalMpiHost() override;

  void begin(MpiListener& listener) override { listener_ = &listener; }
  // Sets the directory for PMIx's files. The directory must exist from the first attempt until the last
  // attempt has ended.
  void set_run_directory(std::string directory) { run_directory_ = std::move(directory); }
  std::expected<void, StartFailure> open(const wire::JobSpec& job, const OpenAttempt& attempt) override;
  void hear(const wire::MpiTold& told) override;
  std::string fault_of(LocalRank rank, wire::WorkerExited& exited) override;
  void close() override;

  // For the open attempt.
  const MpiContext& context() const { return context_; }
  // These functions return the things that a rank gets for MPI: environment variables, as NAME=value, and an
  // open descriptor, or -1 if there is none.
  Expected<std::vector<std::string>> entries_for(LocalRank rank) const;
  int descriptor_for(LocalRank rank) const { return pmi_ ? pmi_->for_rank(rank) : -1; }
  void rank_runs(LocalRank rank, pid_t process);

 private:
  void asked(wire::MpiAsked asked, std::optional<std::chrono::seconds> limit) override;
  void remarked(std::string what) override;
  void withdraw_after(std::chrono::seconds limit, const wire::MpiAsked& fence);
  Status serve();
  Status serve_pmix();
  Status serve_pmi();
  void look_for_lone_ranks(Duration pause);
  // Notes which shared memory the ranks have in /dev/shm, so that it will be removed.
  void note_segments();
  // Call this while the ranks of this node are in a fence.
  void in_fence();
  // Returns the name of the attempt's MPI_COMM_WORLD, which no other attempt of a job on this host has.
  std::string world_name() const { return fmt::format("muster-{}-{}", job_id_, attempt_); }
  SegmentsOwner owner() const { return {job_id_, setting_.node, setting_.incarnation}; }

  Setting setting_;
  MpiListener* listener_ = nullptr;
  std::string run_directory_;
  std::string job_id_;
  Attempt attempt_;
  wire::PrepareAttempt plan_;
  MpiContext context_;
  Pmix* pmix_ = nullptr;  // null until the module is loaded
  std::shared_ptr<PmiServer> pmi_;
  std::map<LocalRank, pid_t> processes_;  // the ranks that run
  int fence_count_ = 0;
  bool looks_for_lone_ranks_ = false;
  asio::steady_timer lookout_;                          // for look_for_lone_ranks()
  std::map<std::uint64_t, asio::steady_timer> limits_;  // time limits of questions, by their number
};

}  // namespace muster::agent
