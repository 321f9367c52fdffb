// How `launch check` finds out, here and on hosts, which torch a Python interpreter has, and whether a script
// needs torch. Reads the script only; the caller runs the interpreter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Judges by the program's name.
bool is_python(std::string_view program);

// A script for `python -c`.
extern const char* const kAskForTorch;
// Parses what kAskForTorch printed: the version; "" without torch; nothing if the output is not an answer.
std::optional<std::string> torch_in(std::string_view printed);

// Returns whether the script of a command imports torch: train.py in `python3 -u train.py --lr 1`.
bool script_imports_torch(const std::vector<std::string>& command, const std::string& working_directory);

}  // namespace muster
