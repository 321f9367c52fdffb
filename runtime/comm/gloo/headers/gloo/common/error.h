// Replaces Gloo's header gloo/common/error.h, because no build of torch contains that header.
//
// ProcessGroupGloo.hpp includes it, but uses nothing from it.
#pragma once
