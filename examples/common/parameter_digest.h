// A digest of a network's parameters, to compare two trained networks.
#pragma once

#include <string>
#include <torch/torch.h>

// Returns the XXH3-128 of the bytes of all parameters, in the order of their names. Networks that are equal
// bit for bit have equal digests.
std::string parameter_digest(const torch::nn::Module& net);
