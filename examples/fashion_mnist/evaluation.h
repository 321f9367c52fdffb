// What a trained network is worth, and whether two are the same.
//
// For the training thread; nothing is kept between calls.
#pragma once

#include <muster/muster.h>
#include <string>

#include "examples/fashion_mnist/net.h"

// The share of `images` that the network names right; every rank looks at its part, each image once.
// Collective.
double test_accuracy(NetImpl& net, const muster::Dataset<>& images, const muster::Job& job);

// XXH3-128 of the bytes of all parameters in the order of their names: equal if and only if they are equal
// bit for bit.
std::string parameter_digest(const NetImpl& net);
