// py-spy for tests of what agents see with it. ./dev installs it in the folder of the Python that has torch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace muster {

// A PATH in which py-spy is found. Nothing: it is not installed, or may not look at processes here.
std::optional<std::string> path_with_py_spy();

// Makes a link `python3` to the Python in PATH, for a PATH of only this folder, without py-spy. Returns the
// link.
std::string link_to_python(const std::filesystem::path& folder);

}  // namespace muster
