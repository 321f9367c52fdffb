// Chooses the variables that workers get from this launcher and from --env-file, and hides secret values.
//
// A variable with the name of a secret is passed to other hosts only if the user names it (--env); its value
// is never shown. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/wire/messages.h"
#include "launcher/core/settings/options.h"

namespace muster::launcher {

// Whether the name has TOKEN, SECRET, PASSWORD, PASSWD or CREDENTIAL in it, or ends in _KEY, in any letter
// case.
bool is_secret(std::string_view name);
// The value as a plan, a report or a log may show it: *** for a secret.
std::string_view shown_value(std::string_view name, std::string_view value);

// The variables that this launcher passes to workers on other hosts without --env: paths of programs and
// libraries, and the variables of PyTorch and its libraries. Excludes CUDA_VISIBLE_DEVICES, and what an outer
// launcher has set for its own worker.
std::map<std::string, std::string> passed_environment(const Environment& here);

// Like passed_environment(), but without the paths of programs and libraries: an image has its own.
std::map<std::string, std::string> passed_to_containers(const Environment& here);

// Reads lines NAME=VALUE, or NAME to pass on the value set here, if any; a line that begins with # is a
// comment. Values are literal, including quotes. Errors give the line number but not the text, which may be a
// secret.
Expected<std::map<std::string, std::string>> parse_env_file(std::string_view text, std::string_view source,
                                                            const Environment& here);

// The NCCL variables that agents set because neither the job nor the workers' environment sets them. On hosts
// this includes NCCL's interface: the one that the job names, else one that each agent chooses.
std::map<std::string, std::string> chosen_for_nccl(const wire::JobSpec& job, const Environment& inherited,
                                                   bool on_hosts);

}  // namespace muster::launcher
