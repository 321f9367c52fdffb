// Models split by the measured times of their layers: the predicted and the measured time of a step.
#pragma once

#include <muster/comm/job.h>
#include <nlohmann/json.hpp>

namespace muster::bench {

// Returns, by model ("Linear layers", "ResNet-50") and by cut ("uniform", "profile"), "predicted" and "step"
// in milliseconds, one number per round. Collective.
nlohmann::json split_times(const Job& job, int rounds);

}  // namespace muster::bench
