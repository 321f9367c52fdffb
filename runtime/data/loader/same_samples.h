// Checks that all stages of a pipeline read the same samples. The first stage reads a batch's inputs and the
// last stage its targets, so both need the same batches.
//
// Plain functions, without torch.
#pragma once

#include <span>
#include <string>

namespace muster {

// Names a DataLoader's share of the data. Two loaders of one dataset with different shares read different
// samples.
std::string text_of_share(int rank, int world_size);
// Returns the share of the loader whose batch the calling thread's loop holds, if `memory` is the storage of
// one of that batch's tensors; else an empty text.
std::string share_in_hand(const void* memory);
// Throws std::invalid_argument if two shares differ; the message says what to write. Empty shares are
// unknown, and match any other.
void require_one_share(std::span<const std::string> shares);

}  // namespace muster
