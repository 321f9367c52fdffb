// What `launch check` asks a Python interpreter, here and on hosts: which torch it has; and whether a script
// needs one. Reads the script only; who asks runs the interpreter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// By its name.
bool is_python(std::string_view program);

// For `python -c`.
extern const char* const kAskForTorch;
// What it printed: the version; "" if it has none; nothing if that is no answer.
std::optional<std::string> torch_in(std::string_view printed);

// Of `python3 -u train.py --lr 1`: whether train.py imports torch.
bool script_imports_torch(const std::vector<std::string>& command, const std::string& working_directory);

}  // namespace muster
