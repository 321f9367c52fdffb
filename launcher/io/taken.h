// A function to call when `bytes` of a worker's output need no longer be kept: their reader has taken them,
// or they were thrown away.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace muster::launcher {

using Taken = std::shared_ptr<const std::function<void(std::size_t bytes)>>;

}  // namespace muster::launcher
