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

// The PATH that the job's workers get: its own, or the agent's.
std::string search_path(const Environment& inherited, const wire::JobSpec& job);

// The path to execute. kNotFound: there is none (exit code 127). kPermission: it cannot be executed (126).
Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory);

// Whether the script that the job's Python runs can be read; the same codes. There need be none.
Status check_script(const wire::JobSpec& job);

// The path of the job's program. Where that is `python3 [-u] FILE.py ...`, the file can be read as well.
Expected<std::string> find_program_of(const wire::JobSpec& job, const std::string& search_path);

// What decides about a template: which file it is, and whether it carries the note of Muster::warm_start (a
// script's interpreter does). The Python runner lies beside the agent's own program.
ProgramFacts facts_of_program(const std::string& path);

}  // namespace muster::agent
