// Finds the program that workers will execute, in the same way as a shell. This is done before any worker is
// started.
//
// A name with a slash is a path, relative to the working directory. Any other name is looked up in PATH.
#pragma once

#include <string>

#include "agent/core/start/environment.h"
#include "agent/core/start/template_spec.h"
#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// Returns the PATH for the job's workers. If the job does not set PATH, returns the one in `inherited`.
std::string search_path(const Environment& inherited, const wire::JobSpec& job);

// Returns the path to execute for a program's name. Returns kNotFound if there is no such program (exit code
// 127). Returns kPermission if the program cannot be executed (exit code 126).
Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory);

// If the job's Python runs a script, checks that the script can be read. Returns the same errors as
// find_program().
Status check_script(const wire::JobSpec& job);

// Calls check_script(), and returns the path of the job's program.
Expected<std::string> find_program_of(const wire::JobSpec& job, const std::string& search_path);

// Returns the facts about a program that decide whether a template is possible: the identity of the file, and
// whether it has the note of Muster::warm_start. If the program is a script, its interpreter must have the
// note.
ProgramFacts facts_of_program(const std::string& path);

}  // namespace muster::agent
