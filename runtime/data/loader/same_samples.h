// Checks that all stages of a pipeline read the same samples. The first stage reads the inputs of a batch,
// and the last stage reads the targets. So both stages must read the same batches.
//
// The functions do not use torch.
#pragma once

#include <span>
#include <string>

namespace muster {

// Returns a text such as "rank 0 of 4", which names the share of the data that a DataLoader reads. If two
// loaders of the same dataset have different shares, they read different samples.
std::string text_of_share(int rank, int world_size);
// `memory` is the address of a tensor's storage. If the tensor belongs to the batch that the loop of the
// calling thread has now, returns the share of this loop's loader. Otherwise returns "".
std::string share_in_hand(const void* memory);
// Throws std::invalid_argument if two of the shares differ. The message says how to make the loaders. An
// empty text stands for a share that is not known. This function treats it as equal to every other share.
void require_one_share(std::span<const std::string> shares);

}  // namespace muster
