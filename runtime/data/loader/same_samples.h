// Whether the ranks of a pipeline read the same samples: the inputs of a batch meet its targets at the other
// end.
//
// Plain functions, without torch.
#pragma once

#include <span>
#include <string>

namespace muster {

// Names a DataLoader's part of the data; two loaders of one dataset with different parts read different
// samples.
std::string text_of_share(int rank, int world_size);
// Names the part of the loader whose batch the calling thread holds, if a tensor of that batch lies in this
// storage; else empty.
std::string share_in_hand(const void* memory);
// std::invalid_argument says what to write. Empty ones are unknown and fit to all.
void require_one_share(std::span<const std::string> shares);

}  // namespace muster
