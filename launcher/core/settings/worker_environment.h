// Which variables workers get: those that travel from this launcher to other hosts, those of --env-file, and
// whose values may be shown.
//
// A variable whose name tells of a secret travels only if the user names it (--env), and its value is shown
// nowhere. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/wire/messages.h"
#include "launcher/core/settings/options.h"

namespace muster::launcher {

// Whether the name has TOKEN, SECRET, PASSWORD, PASSWD or CREDENTIAL in it, or ends in _KEY; in any case.
bool is_secret(std::string_view name);
// The value as a plan, a report or a log may show it: *** of a secret.
std::string_view shown_value(std::string_view name, std::string_view value);

// The variables that workers on other hosts get from this launcher without being named: those that say where
// programs and libraries are, and those of PyTorch and what it uses. Not CUDA_VISIBLE_DEVICES, nor what a
// launcher above this one has set for its own worker.
std::map<std::string, std::string> passed_environment(const Environment& here);

// The same without those that say where programs and libraries are: an image has its own.
std::map<std::string, std::string> passed_to_containers(const Environment& here);

// Lines NAME=VALUE, or NAME to pass it on if it is set here; # begins a line that is a comment. Values are as
// they stand, quotes too. Errors name the line and not its text, which may be a secret.
Expected<std::map<std::string, std::string>> parse_env_file(std::string_view text, std::string_view source,
                                                            const Environment& here);

// The variables of NCCL that agents set because neither the job nor the environment that workers have beside
// it does; on hosts each its own interface too, unless the job names one.
std::map<std::string, std::string> chosen_for_nccl(const wire::JobSpec& job, const Environment& inherited,
                                                   bool on_hosts);

}  // namespace muster::launcher
