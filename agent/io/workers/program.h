// Finds the program that workers will execute, as a shell does, before any worker is started.
//
// A name with a slash is a path, relative to the working directory. Any other name is looked up in PATH.
#pragma once

#include <string>

#include "agent/core/start/environment.h"
#include "agent/core/start/template_spec.h"
#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// Returns the PATH of the job's workers: the job's, or else the one in `inherited`.
std::string search_path(const Environment& inherited, const wire::JobSpec& job);

// Returns the path to execute. Errors: kNotFound if there is no such program (exit code 127), kPermission if
// it cannot be executed (126).
Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory);

// If the job's Python runs a script, checks that the script can be read. Errors as find_program().
Status check_script(const wire::JobSpec& job);

// Calls check_script(), and returns the path of the job's program.
Expected<std::string> find_program_of(const wire::JobSpec& job, const std::string& search_path);

// Returns the facts that decide about a template: the file's identity, and whether it has the note of
// Muster::warm_start. For a script, it is the interpreter that must have the note.
ProgramFacts facts_of_program(const std::string& path);

}  // namespace muster::agent
