// The accuracy of a trained network.
//
// For the training thread; stateless.
#pragma once

#include <muster/muster.h>

#include "examples/fashion_mnist/net.h"

// Returns the share of `images` that the network classifies correctly. Collective: each rank classifies its
// part, and each image counts once.
double test_accuracy(NetImpl& net, const muster::Dataset<>& images, const muster::Job& job);
