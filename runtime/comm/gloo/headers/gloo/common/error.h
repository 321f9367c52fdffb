// A stand-in for Gloo's header of this name, which no build of torch ships.
//
// ProcessGroupGloo.hpp includes it but uses nothing from it.
#pragma once
