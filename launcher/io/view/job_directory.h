// Creates the unique name of a job, and the directory for its logs and its report.
//
// Two launches never share a directory, because each name is new. If the directory already exists, the launch
// gets an error. Blocking.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster::launcher {

// Returns `name` followed by random digits. If there is no name, date and time take its place.
std::string make_job_id(const std::string& name);

// Creates the directory and its parents.
Status make_job_directory(const std::string& path);

// Writes 32 random hexadecimal digits into the file wire::kLogNonceFile there, and returns them. If an agent
// on another host reads the same digits, it shares the directory.
Expected<std::string> leave_nonce(const std::string& directory);

}  // namespace muster::launcher
