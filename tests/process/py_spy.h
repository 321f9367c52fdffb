// py-spy for tests of what agents see with it. ./dev installs it beside the Python that has torch.
#pragma once

#include <optional>
#include <string>

namespace muster {

// A PATH in which py-spy is found. Nothing: it is not installed, or may not look at processes here.
std::optional<std::string> path_with_py_spy();

}  // namespace muster
