// Models that are cut by what their layers take: what the split says of a step beforehand, and what it takes.
#pragma once

#include <muster/comm/job.h>
#include <nlohmann/json.hpp>

namespace muster::bench {

// By model, "Linear layers" and "ResNet-50", and by how it is cut, "uniform" and "profile": "predicted" and
// "step", milliseconds, a number a round. Collective.
nlohmann::json split_times(const Job& job, int rounds);

}  // namespace muster::bench
