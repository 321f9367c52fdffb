// Exchange with Optuna 5.0: writes a sweep to the file of its journal storage (JournalFileBackend), and reads
// such a file, also one that Optuna still writes to.
//
// Optuna has no paused or infeasible trials: they become PRUNED and FAIL, and an attribute keeps the state
// for the way back; another one keeps the space. Functions block while the disk does; no threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/search/search.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

struct OptunaStudy {
  std::string name;
  std::vector<Objective> objectives;  // intermediate values belong to the first one
  Space space;
  double began_unix = 0;  // the time 0 of the history
};

// The lines of the file. A parameter without a range, kNormal, gets one of ten standard deviations.
std::string as_optuna_journal(const OptunaStudy& study, const std::vector<Trial>& trials);
// Makes the file; an error if it exists.
Status write_optuna_journal(const std::string& path, const OptunaStudy& study,
                            const std::vector<Trial>& trials);

struct ImportedStudy {
  // Metrics without a name are called `value`, or `value_0`, `value_1`, ...
  OptunaStudy study;
  // The history of its trials. A trial that Optuna still runs is left running.
  std::vector<Event> events;
};
// `name`: of the study; empty: the only one. The space has the widest range of each parameter, and no
// conditions: Optuna does not know when a parameter exists. A whole number with steps is a choice if it has
// up to 256 values, otherwise any whole number of its range. Errors name the line or the parameter.
Expected<ImportedStudy> parse_optuna_journal(std::string_view text, const std::string& name);
Expected<ImportedStudy> read_optuna_journal(const std::string& path, const std::string& name);

}  // namespace muster::launcher::sweep
