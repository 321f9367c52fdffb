// Creates the directory of one job's logs and report, and the job's unique name.
//
// Two launches never share a directory: the name is new each time, and creating the directory fails if it
// exists. Blocking.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster::launcher {

// Returns `name` followed by random digits. Without a name, date and time take its place.
std::string make_job_id(const std::string& name);

// Creates the directory and its parents.
Status make_job_directory(const std::string& path);

// Writes 32 random hexadecimal digits into wire::kLogNonceFile there. An agent on another host that reads the
// same digits shares the directory. Returns the digits.
Expected<std::string> leave_nonce(const std::string& directory);

}  // namespace muster::launcher
