// Exchanges sweeps with Optuna 5.0. It writes a sweep to a file that Optuna's journal storage
// (JournalFileBackend) can read. It also reads such a file, even while Optuna is still writing to it.
//
// Optuna has no paused or infeasible trials. These become PRUNED and FAIL, and an attribute keeps their
// state. When the file is read back, an infeasible trial is infeasible again. A paused one counts as stopped,
// because its checkpoint is not in the file. Another attribute keeps the space. A function may have to wait
// for the disk. No threads.
#pragma once

#include <optional>
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

// Returns the lines of the file. A parameter of the kind kNormal has no range. Its range becomes ten standard
// deviations.
std::string as_optuna_journal(const OptunaStudy& study, const std::vector<Trial>& trials);
// Makes the file; an error if it exists.
Status write_optuna_journal(const std::string& path, const OptunaStudy& study,
                            const std::vector<Trial>& trials);

struct ImportedStudy {
  // If a study has metrics without names, they are called `value`, or `value_0`, `value_1` and so on.
  OptunaStudy study;
  // The history of the study's trials. If Optuna is still running a trial, the trial counts as running here,
  // too.
  std::vector<Event> events;
  // The number of the file's last line if it is not a complete record. It is left out.
  std::optional<std::size_t> unfinished_line{};
};
// Reads a study from the text of Optuna's journal. `name` is the name of the study. If it is empty, there
// must be only one study. The space has the widest range of each parameter. It has no conditions, because
// Optuna does not know when a parameter exists. A whole number with steps becomes a choice if it has at most
// 256 values. Otherwise it becomes any whole number in its range. Errors name the line or the parameter.
Expected<ImportedStudy> parse_optuna_journal(std::string_view text, const std::string& name);
Expected<ImportedStudy> read_optuna_journal(const std::string& path, const std::string& name);

}  // namespace muster::launcher::sweep
