// Puts the values of a trial in place of the placeholders in a program's arguments. So `--lr={lr}` becomes
// `--lr=0.01`.
//
// Only `{NAME}` with a plain identifier is a placeholder, so JSON such as `{"lr": 1}` stays as it is. Two
// braces on each side stand for one brace on each side. So `{{lr}}` becomes `{lr}`, and `{{{lr}}}` becomes
// `{0.01}`. If one side has more braces than the other, the additional ones are ordinary letters. So `{"lr":
// {lr}}` becomes `{"lr": 0.01}`. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

// Returns the argument with values in place of its placeholders. `more` has the caller's own placeholders,
// such as `trial` and `trial_dir`. If a parameter has the same name, the parameter counts. One command line
// serves all points of a space with conditions. So a parameter that is inactive in `point` becomes the empty
// text: `--momentum={momentum}` becomes `--momentum=`. If a name is unknown, returns an error with this name
// and the most similar one that is known.
Expected<std::string> filled(std::string_view argument, const Space& space, const Point& point,
                             const std::map<std::string, std::string>& more = {});

}  // namespace muster::launcher::sweep
