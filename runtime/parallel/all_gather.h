// What every rank has to say, as bytes.
//
// Collective. Over CPU tensors whatever the job's device is.
#pragma once

#include <muster/job.h>
#include <string>
#include <vector>

namespace muster {

// Of every rank, its bytes, which are cut or filled to this length.
std::vector<std::string> all_gathered(const Job& job, std::string bytes, std::size_t length);

}  // namespace muster
