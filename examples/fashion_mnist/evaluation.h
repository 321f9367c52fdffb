// What a trained network is worth.
//
// For the training thread; nothing is kept between calls.
#pragma once

#include <muster/muster.h>

#include "examples/fashion_mnist/net.h"

// The share of `images` that the network names right; every rank looks at its part, each image once.
// Collective.
double test_accuracy(NetImpl& net, const muster::Dataset<>& images, const muster::Job& job);
