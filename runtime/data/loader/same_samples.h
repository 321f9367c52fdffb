// Checks that all stages of a pipeline read the same samples. The first stage reads a batch's inputs and the
// last stage its targets, so both need the same batches.
//
// The functions do not use torch.
#pragma once

#include <span>
#include <string>

namespace muster {

// Returns the name of a DataLoader's share of the data, such as "rank 0 of 4". Two loaders of one dataset
// with different shares read different samples.
std::string text_of_share(int rank, int world_size);
// If `memory` is the storage of a tensor in the batch that the calling thread's loop holds, returns the share
// of that batch's loader. Otherwise returns an empty text.
std::string share_in_hand(const void* memory);
// Throws std::invalid_argument if two shares differ. The message says how to make the loaders. An empty share
// is unknown and matches any share.
void require_one_share(std::span<const std::string> shares);

}  // namespace muster
