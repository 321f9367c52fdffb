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

// Returns whether a variable of this name is a secret. It is if the name contains TOKEN, SECRET, PASSWORD,
// PASSWD or CREDENTIAL, or if it ends in _KEY. Upper and lower case count as the same.
bool is_secret(std::string_view name);
// Returns the value as a plan, a report or a log may show it. If it is a secret, returns "***".
std::string_view shown_value(std::string_view name, std::string_view value);

// Returns the variables that this launcher passes to workers on other hosts without --env. These are the
// paths of programs and libraries, and the variables of PyTorch and its libraries. CUDA_VISIBLE_DEVICES is
// not among them, and neither is anything that an outer launcher has set for its own worker.
std::map<std::string, std::string> passed_environment(const Environment& here);

// Like passed_environment(), but without the paths of programs and libraries, because an image has its own.
std::map<std::string, std::string> passed_to_containers(const Environment& here);

// Reads lines of the form NAME=VALUE or NAME. A line NAME passes on the value that the variable has here, if
// it has one. A line that begins with # is a comment. Values are taken as they are, including quotes. Errors
// give the number of the line, but not its text, which may be a secret.
Expected<std::map<std::string, std::string>> parse_env_file(std::string_view text, std::string_view source,
                                                            const Environment& here);

// Returns the NCCL variables that agents set, because neither the job nor the workers' environment sets them.
// On hosts, one of these variables is that of NCCL's network interface. Its value is the interface that the
// job names. If the job names none, each agent chooses an interface.
std::map<std::string, std::string> chosen_for_nccl(const wire::JobSpec& job, const Environment& inherited,
                                                   bool on_hosts);

}  // namespace muster::launcher
