// Replaces Gloo's header gloo/algorithm.h, because no build of torch contains that header.
//
// ProcessGroupGloo.hpp includes this header, but uses nothing from it.
#pragma once
