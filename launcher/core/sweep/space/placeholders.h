// Replaces the placeholders in a program's arguments by a trial's values: `--lr={lr}` becomes `--lr=0.01`.
//
// Only `{NAME}` with a plain identifier is a placeholder, so JSON such as `{"lr": 1}` stays as it is. Two
// braces on both sides stand for one of each: `{{lr}}` becomes `{lr}`, and `{{{lr}}}` becomes `{0.01}`.
// Braces on one side only are letters: `{"lr": {lr}}` becomes `{"lr": 0.01}`. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

// `more` has the caller's own placeholders, such as `trial` and `trial_dir`; a parameter of the same name
// wins. A parameter that is inactive in `point` becomes the empty text, because one command line serves all
// points of a conditional space: `--momentum={momentum}` becomes `--momentum=`. If an identifier is unknown,
// returns an error that names it and the nearest known one.
Expected<std::string> filled(std::string_view argument, const Space& space, const Point& point,
                             const std::map<std::string, std::string>& more = {});

}  // namespace muster::launcher::sweep
