// Whether two trained networks are the same.
#pragma once

#include <string>
#include <torch/torch.h>

// XXH3-128 of the bytes of all parameters in the order of their names: equal if and only if they are equal
// bit for bit.
std::string parameter_digest(const torch::nn::Module& net);
