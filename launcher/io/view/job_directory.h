// The directory of one job's logs and report, and the job's unique name.
//
// Two launches never share one: its name is new each time, and creating it fails if it exists. Blocking.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster::launcher {

// `name` and random digits; without a name, date and time and random digits.
std::string make_job_id(const std::string& name);

// 32 random hexadecimal digits.
std::string make_nonce();

// Creates it, with its parents.
Status make_job_directory(const std::string& path);

}  // namespace muster::launcher
