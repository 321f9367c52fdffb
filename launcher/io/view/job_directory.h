// The directory of one job's logs and report, and the job's unique name.
//
// Two launches never share one: its name is new each time, and creating it fails if it exists. Blocking.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster::launcher {

// `name` and random digits; without a name, date and time and random digits.
std::string make_job_id(const std::string& name);

// Creates it, with its parents.
Status make_job_directory(const std::string& path);

// Writes 32 random hexadecimal digits into wire::kLogNonceFile there, by which agents on other hosts know
// that they see the same directory. Returns the digits.
Expected<std::string> leave_nonce(const std::string& directory);

}  // namespace muster::launcher
