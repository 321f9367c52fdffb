// Replaces Gloo's header of this name, which is not part of any build of torch.
//
// ProcessGroupGloo.hpp includes it, but uses nothing from it.
#pragma once
