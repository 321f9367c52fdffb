// Finds out which version of torch a Python interpreter has, and whether a script needs torch.
//
// `launch check` uses this, on this host and on others. The caller runs the interpreter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Decides by the program's name.
bool is_python(std::string_view program);

// A script for `python -c`. It prints which version of torch the interpreter has.
extern const char* const kAskForTorch;
// Parses the output of kAskForTorch. Returns the version, or "" if there is no torch. Returns nothing if the
// text has no answer.
std::optional<std::string> torch_in(std::string_view printed);

// Returns whether the script that a command runs imports torch. For example, `python3 -u train.py --lr 1`
// runs the script train.py.
bool script_imports_torch(const std::vector<std::string>& command, const std::string& working_directory);

}  // namespace muster
