#include "common/base/python_torch.h"

#include <algorithm>
#include <filesystem>

#include "common/base/file.h"
#include "common/base/text.h"

namespace muster {

namespace {

// Returns the first name in the text. For example, it is "torch" in " torch.nn as nn".
std::string_view first_name(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_first_of(" \t\r.;#"));
}

// Returns whether this line of a script imports torch.
bool imports_torch(std::string_view line) {
  const std::string_view keyword = first_name(line);
  if (keyword != "import" && keyword != "from") return false;
  const auto modules = line.substr(static_cast<std::size_t>(keyword.end() - line.begin()));
  return std::ranges::any_of(split(modules, ','),
                             [](std::string_view module) { return first_name(module) == "torch"; });
}

}  // namespace

const char* const kAskForTorch =
    "import importlib.util as u, importlib.metadata as m\n"
    "s = u.find_spec('torch')\n"
    "print('torch', m.version('torch') if s else '-', s.origin if s else '-')";

bool is_python(std::string_view program) {
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

// Searches for the answer from the end of the text, because start-up files of Python may have printed other
// text before it.
std::optional<std::string> torch_in(std::string_view printed) {
  const std::size_t at = printed.rfind("torch ");
  if (at == std::string_view::npos) return std::nullopt;
  const auto words = split(printed.substr(at, printed.find('\n', at) - at), ' ');
  return words.size() < 3 || words[1] == "-" ? "" : std::string(words[1]);
}

bool script_imports_torch(const std::vector<std::string>& command, const std::string& working_directory) {
  if (command.empty()) return false;
  const auto script = std::find_if(command.begin() + 1, command.end(),
                                   [](const std::string& word) { return !word.starts_with('-'); });
  if (script == command.end()) return false;
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const auto text =
      read_regular_file((std::filesystem::path(working_directory) / *script).string(), kMostBytes);
  return text && std::ranges::any_of(split(*text, '\n'), imports_torch);
}

}  // namespace muster
