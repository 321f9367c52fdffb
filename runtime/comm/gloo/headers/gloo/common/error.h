// Stands in for Gloo's header of this name, which no build of torch ships.
//
// ProcessGroupGloo.hpp includes it and uses nothing of it.
#pragma once
