// Checks the options of a Checkpointer, and translates them for its parts.
//
// The constructor of Checkpointer calls these functions.
#pragma once

#include <muster/checkpoint/checkpointer.h>

#include "runtime/checkpoint/beginning.h"
#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/save_policy.h"

namespace muster {

bool is_world(const Group& group);
bool saves_by_time(const CheckpointerOptions& options);

// If an option is not valid, throws std::invalid_argument, which names the option.
void check_options(const Group& group, const CheckpointerOptions& options);

CommitPlan plan_of(const CheckpointerOptions& options, const Job& job, Attempt attempt);
SaveSetting setting_of(const CheckpointerOptions& options, const Job& job, const Beginning& begun);

}  // namespace muster
