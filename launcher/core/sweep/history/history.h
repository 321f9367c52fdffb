// The history of a sweep. It has all decisions and all events so far, in order.
//
// The journal keeps the events. All other parts of a history follow from them. Searchers (search.h) and
// schedulers (schedule.h) read nothing but the history and the settings. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/sweep/space/value.h"

namespace muster::launcher::sweep {

// ---- Events ----

// The scheduler asked for a new trial, and the searcher chose its point.
struct TrialCreated {
  std::int32_t trial = 0;  // numbered from 0, without gaps
  Point point{};
  std::int32_t bracket = 0;  // of Hyperband and BOHB; otherwise 0
  std::string reason{};
};
// The trial's program starts, or continues from its checkpoint.
struct RunBegan {
  std::int32_t trial = 0;
  std::int32_t run = 0;    // of this trial, from 0; each run is one job
  std::int64_t until = 0;  // the scheduler looks at the trial at this step; 0: at no step
  std::string place{};     // for people: "node2 GPU 0,1"
  std::string reason{};
  double at = 0;  // as in Reported
};
// A report of the running trial. Values may be NaN or infinite.
struct Reported {
  std::int32_t trial = 0;
  std::int64_t step = 0;
  std::map<std::string, double> values{};
  double at = 0;  // s since the sweep's begin, by the controller's clock; nothing is decided from it
};
enum class RunEnd {
  kFinished,    // the program has ended with 0
  kPaused,      // stopped at `until`, with its checkpoint; it may be resumed
  kStopped,     // the scheduler gave it up
  kInfeasible,  // the point cannot be trained: out of memory
  kFailed,      // it has failed, and may be tried again
  kLost,        // its node was lost, or the controller was killed: tried again, without using up a retry
  kCancelled,   // the user ended the sweep; `sweep resume` goes on with it
};
std::string_view name_of(RunEnd end);
struct RunEnded {
  std::int32_t trial = 0;
  std::int32_t run = 0;
  RunEnd end = RunEnd::kFinished;
  std::string text{};  // one line, for people
  double at = 0;       // as in Reported
};
// In PBT, the trial takes over the checkpoint of `from`, and continues with another point.
struct Exploited {
  std::int32_t trial = 0;
  std::int32_t from = 0;
  std::int64_t step = 0;  // the newest step that `from` had reported; its checkpoint can be of another step
  Point point{};
  std::string reason{};
};
using Event = std::variant<TrialCreated, RunBegan, Reported, RunEnded, Exploited>;

// Returns the member `at` of the event. Returns 0 if the event has no time.
double time_of(const Event& event);

// Returns a JSON object such as {"event": "trial_created", ...}. docs/reference/formats.md describes the
// members.
nlohmann::ordered_json event_as_json(const Event& event);
Expected<Event> event_from_json(const nlohmann::ordered_json& json);

// ---- The history ----

enum class TrialState {
  kWaiting,  // no run of it has begun, or its run was lost or is to be tried again
  kRunning,
  kPaused,
  kFinished,  // this one and all below are final
  kStopped,
  kInfeasible,
  kFailed,  // all retries are used up
};
std::string_view name_of(TrialState state);

struct Measurement {
  std::int64_t step = 0;
  double value = 0;
};

struct Trial {
  std::int32_t number = 0;
  Point point{};
  std::int32_t bracket = 0;
  TrialState state = TrialState::kWaiting;
  std::int32_t run_count = 0;
  std::int32_t failure_count = 0;  // runs with kFailed
  std::int64_t until = 0;          // of the newest run
  std::int64_t counts_from = -1;   // of the newest run: its reports without a step count on from here
  // The reports of each metric, sorted by step. A program may report step 5 after step 9.
  std::map<std::string, std::vector<Measurement>> measured{};
  // The largest step of each metric before the trial's newest report.
  std::map<std::string, std::int64_t> reached_before{};
  std::string text{};  // says how its last run ended; empty while it runs again
  std::vector<Exploited> exploits{};
  std::int32_t exploit_run = -1;  // begins with the newest exploit's checkpoint
  // The metrics that were not reported since the newest exploit. Their values come from the parameters that
  // the trial had before this exploit.
  std::set<std::string> old_metrics{};
  double began_at = 0;  // of the first run; this and the next times are only shown to people
  double ended_at = 0;
  double run_began_at = 0;   // of the newest run
  bool knows_begin = false;  // run_began_at is that of the newest run
  double busy = 0;           // s that its runs have taken, except one that still runs

  bool is_over() const;
  std::int64_t newest_step() const;   // the largest of any metric; -1: none was reported
  std::int64_t reached_step() const;  // the same, or the step that was taken over with a checkpoint
  bool has_value(const std::string& metric, std::int64_t step) const;  // of exactly this step
  // The value of a metric at its largest step; nullopt: none was reported.
  std::optional<double> newest(const std::string& metric) const;
  // Returns the value of a metric at `step`. If the metric has no value at `step`, returns the value at the
  // first later step that was reported. If no later step was reported, returns nullopt.
  std::optional<double> value_at(const std::string& metric, std::int64_t step) const;
};

// If a run of a trial fails, the trial is retried. After this many retries it is given up.
struct RetryLimit {
  std::int32_t retries = 0;
};

class History {
 public:
  explicit History(RetryLimit limit = {}) : limit_(limit) {}
  // Applies the event. If the event cannot follow this history, returns an error and changes nothing. In that
  // case the journal is damaged, or belongs to another sweep.
  Status apply(const Event& event);
  const std::vector<Trial>& trials() const { return trials_; }
  std::size_t running_count() const;

 private:
  Status check(const Event& event) const;
  RetryLimit limit_;
  std::vector<Trial> trials_;
};

}  // namespace muster::launcher::sweep
