// Finds the program that workers will execute, before any of them is started.
//
// As a shell does: a name with a slash is a path from the working directory, any other is looked up in PATH.
// Reads the file system only.
#pragma once

#include <string>

#include "agent/core/start/environment.h"
#include "agent/core/start/template_spec.h"
#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// The PATH of the job's workers: from the job, or else the agent's.
std::string search_path(const Environment& inherited, const wire::JobSpec& job);

// The path to execute. kNotFound: no such program (exit code 127). kPermission: it cannot be executed (126).
Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory);

// If the job's Python runs a script, checks that the script can be read. Same error codes as find_program().
Status check_script(const wire::JobSpec& job);

// The path of the job's program. If the command is `python3 [-u] FILE.py ...`, also checks that the file can
// be read.
Expected<std::string> find_program_of(const wire::JobSpec& job, const std::string& search_path);

// The facts that decide about a template: which file it is, and whether it has the note of Muster::warm_start
// (for a script: whether its interpreter has). The Python runner is installed next to the agent's own
// program.
ProgramFacts facts_of_program(const std::string& path);

}  // namespace muster::agent
