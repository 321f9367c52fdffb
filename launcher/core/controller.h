// All that the launcher decides, behind one function: events come in with the time, actions go out, each with
// its reason.
//
// The fleet decides about agents, the job about attempts; the rank table keeps what people may ask for. What
// the fleet makes of an event is told to the job in the same turn. Reports of progress are held
// back for a while (held_reports.h) before fleet and job hear of them. What MPI servers ask of each other is
// passed on (mpi_exchange.h), and neither hears of it. Who tells it of events asks fleet, job
// and ranks for what they know, and changes neither. One thread; performs nothing, reads no clock.
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
  // `version`: of this Muster; an agent of another version cannot be used.
  Controller(const Plan& plan, std::string version);
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  Decisions on(const Event& event, TimePoint now);
  // Handles one event without holding it back. The same sequence of applied events always leads to the same
  // decisions: a journal keeps these events, and a replay applies them.
  Decisions apply(const Event& event, TimePoint now);
  // Hears of each event that was applied, and of the decisions that it led to.
  using Witness = std::function<void(const Controller& self, const Event& event, TimePoint at,
                                     const Decisions& decisions)>;
  void set_witness(Witness witness) { witness_ = std::move(witness); }
  // When TimePassed is due; nullopt once the job is over.
  std::optional<TimePoint> next_deadline() const;

  const Fleet& fleet() const { return fleet_; }
  const Job& job() const { return job_; }
  const RankTable& ranks() const { return ranks_; }

  // What a journal keeps of it (journal/state.h): all that decides. What people are shown, and reports that
  // are held, are not among it.
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
  std::map<Rank, std::string> parts_;  // of the model, of ranks that say which they have
  Attempt pace_of_;                    // the attempt that pace_ watches
  std::optional<MpiExchange> mpi_;     // of an MPI job
  Attempt mpi_of_;                     // the attempt of that
  TimePoint next_log_;                 // pieces of logs before that are not told
  Witness witness_;
  Decisions decisions_;  // of the event at hand
};

}  // namespace muster::launcher
