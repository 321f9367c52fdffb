// Checks that all stages of a pipeline read the same samples. The first stage reads a batch's inputs and the
// last stage its targets, so both need the same batches.
//
// The functions do not use torch.
#pragma once

#include <span>
#include <string>

namespace muster {

// Returns a text such as "rank 0 of 4", which names the share of the data that a DataLoader reads. If two
// loaders of the same dataset have different shares, they read different samples.
std::string text_of_share(int rank, int world_size);
// Finds out whether `memory` belongs to the batch that the loop of the calling thread has now. It does if it
// is the storage of one of the batch's tensors. Then this function returns the share of the loader of this
// batch. Otherwise it returns "".
std::string share_in_hand(const void* memory);
// Throws std::invalid_argument if two of the shares differ. The message says how to make the loaders. An
// empty text means that a share is not known. It does not differ from any other.
void require_one_share(std::span<const std::string> shares);

}  // namespace muster
