// Reads the definition of a sweep, and finds its state in its directory. The subcommands of `launch sweep`
// share this.
//
// Blocking. Errors are one line for the user.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "launcher/commands/invocation.h"
#include "launcher/core/sweep/sweep_options.h"
#include "launcher/io/sweep/journal.h"

namespace muster::launcher::sweep {

// The words that the user gave to `sweep run`. sweep.db keeps them, and `sweep resume` reads them again.
struct Definition {
  std::string id;  // begins the names of all jobs of the sweep
  std::string working_directory;
  double began_unix = 0;
  Settings settings;                 // of the sweep and of each trial's job
  std::vector<std::string> program;  // with placeholders
  nlohmann::ordered_json space;      // the members `space` and `constraints` of the file
};
nlohmann::ordered_json as_json(const Definition& definition);
Expected<Definition> definition_from_json(const nlohmann::ordered_json& json);

// Returns the surroundings in which the sweep was defined.
Surroundings surroundings_of(const Definition& definition, const Surroundings& here);

// A sweep in a directory, as it is seen by commands that do not control it.
struct SweepView {
  Definition definition;
  SweepOptions options;
  std::vector<Event> events;
  History history;
};
Expected<SweepView> view_sweep(const std::string& directory, const Surroundings& here);

// A sweep that this process controls.
struct HeldSweep {
  Journal journal;
  Definition definition;
  SweepOptions options;
  Sweep sweep;
  double newest = 0;  // the time of the newest event, s since the sweep's begin
};
Expected<HeldSweep> hold_sweep(const std::string& directory, const Surroundings& here);
// Returns whether other programs run the trials, by `ask` and `tell`. Also returns true if they have run
// them, as in an imported sweep.
bool is_run_by_others(const Definition& definition, const SweepOptions& options);
// Returns the seconds since the sweep began. The wall clock may have been set back. So the result is never
// less than `newest`, the time of the newest event.
double age_of(const Definition& definition, double newest);

// Returns the history of the trials after these events. It is an error if an event cannot follow those before
// it.
Expected<History> history_of(const std::vector<Event>& events, std::int32_t retries);

// Reads the number of a trial. Returns nullopt if the sweep has no such trial.
std::optional<std::int32_t> trial_number(const std::string& word, const History& history);

// The words of a subcommand that takes the directory of a sweep.
struct SweepCall {
  const CommandArguments& arguments;
  const Surroundings& here;
  std::string directory;
  bool json = false;
};

// `sweep run`, `preview` and `resume` are in sweep_start.cc.
int sweep_run(const Invocation& invocation);
int sweep_preview(const Invocation& invocation);
int sweep_resume(const SweepCall& call);
// These functions are for other programs that run trials or choose them. They are in sweep_exchange.cc.
int sweep_ask(const SweepCall& call);
int sweep_tell(const SweepCall& call);
int sweep_import(const SweepCall& call);
int sweep_export(const SweepCall& call, const SweepView& sweep);

}  // namespace muster::launcher::sweep
