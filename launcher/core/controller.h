// Makes all decisions of the launcher. It has one function: events go in with the time, and actions come out.
// Each action has its reason.
//
// The fleet decides about agents, and the job about attempts. The rank table stores what users may ask for.
// If an event leads to news of the fleet, the job gets the news within the same call. Reports of progress are
// held back for a while (held_reports.h) before fleet and job get them. Requests between MPI servers are only
// relayed (mpi_exchange.h). Callers may read fleet(), job() and ranks(), but change them only through events.
// Use it on one thread. It performs nothing and reads no clock.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "launcher/core/fleet/fleet.h"
#include "launcher/core/job/held_reports.h"
#include "launcher/core/job/job.h"
#include "launcher/core/job/mpi_exchange.h"
#include "launcher/core/job/stragglers.h"
#include "launcher/core/view/rank_table.h"

namespace muster::launcher {

class Controller {
 public:
  // `version` is the version of this Muster. The fleet refuses agents of other versions.
  Controller(const Plan& plan, std::string version);
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  Decisions on(const Event& event, TimePoint now);
  // Handles one event at once, and does not hold it back. If the same events are applied in the same order,
  // the decisions are the same. So a journal keeps these events, and a replay applies them.
  Decisions apply(const Event& event, TimePoint now);
  // Called with each event that was applied, and with the decisions that followed from it.
  using Witness = std::function<void(const Controller& self, const Event& event, TimePoint at,
                                     const Decisions& decisions)>;
  void set_witness(Witness witness) { witness_ = std::move(witness); }
  // Returns the time at which TimePassed is due. Returns nullopt if the job is over.
  std::optional<TimePoint> next_deadline() const;

  // Returns whether the message counts. It counts if all of these are true:
  // - The fleet listens to its agent.
  // - The agent takes part in the current attempt, and the message belongs to that attempt.
  // - If the message names a rank, the rank is one of this agent's.
  bool counts(AgentId agent, Attempt attempt, const wire::ToLauncher& message) const;

  const Fleet& fleet() const { return fleet_; }
  const Job& job() const { return job_; }
  const RankTable& ranks() const { return ranks_; }

  // For the journal (journal/state.h). These are the parts of the state that decisions depend on. The rank
  // table and the reports that are still held are not among them.
  template <class Archive>
  void fields(Archive& archive) {
    archive(fleet_, job_);
  }

 private:
  bool watch(const AgentSaid& said, TimePoint now);
  Decisions relay(const AgentSaid& said, const wire::MpiAsked& asked);
  void watch_pace(const wire::WorkerReported& reported, TimePoint now, Decisions& all);
  void add(Decisions& all, const Event& event, TimePoint now);
  std::optional<TimePoint> core_deadline() const;
  void handle(const AgentSaid& event, TimePoint now);
  void handle(const TimePassed& event, TimePoint now);
  void handle(const SecondPassed& event, TimePoint now);
  template <class Other>  // an event that concerns only the fleet, or only the job
  void handle(const Other& event, TimePoint now);
  void carry(Fleet::Outcome outcome, TimePoint now);
  template <class What>
  void tell_job(const What& event, TimePoint now);

  Fleet fleet_;
  Job job_;
  RankTable ranks_;
  HeldReports held_;
  Stragglers pace_;
  std::map<Rank, std::string> parts_;  // of the model, by rank, if reported
  Attempt pace_of_;                    // the attempt that pace_ watches
  std::optional<MpiExchange> mpi_;     // for an MPI job
  Attempt mpi_of_;                     // the attempt of mpi_
  TimePoint next_log_;                 // the job does not get log pieces before this time
  Witness witness_;
  Decisions decisions_;  // of the current event
};

}  // namespace muster::launcher
