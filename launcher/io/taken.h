// A function that is called when `bytes` of a worker's output need not be kept any longer. Either their
// reader has taken them, or they were thrown away.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace muster::launcher {

using Taken = std::shared_ptr<const std::function<void(std::size_t bytes)>>;

}  // namespace muster::launcher
