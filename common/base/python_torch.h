// Finds out which torch a Python interpreter has, and whether a script needs torch. For `launch check`, on
// this and other hosts. The caller runs the interpreter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Decides by the program's name.
bool is_python(std::string_view program);

// A script for `python -c`, which prints the version of torch.
extern const char* const kAskForTorch;
// Parses what kAskForTorch has printed. Returns the version, "" if there is no torch, or nothing if the text
// has no answer.
std::optional<std::string> torch_in(std::string_view printed);

// Returns whether the script of a command imports torch. In `python3 -u train.py --lr 1`, the script is
// train.py.
bool script_imports_torch(const std::vector<std::string>& command, const std::string& working_directory);

}  // namespace muster
