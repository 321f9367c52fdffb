#include "launcher/io/config_file.h"

#include <algorithm>
#include <yaml-cpp/yaml.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "launcher/core/arguments.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kLimitBytes = 1 << 20;

// The words of a value: a scalar is one, a list several, a map gives KEY=VALUE each (for `env`).
Expected<std::vector<std::string>> words_of(const YAML::Node& value) {
  if (value.IsScalar()) return std::vector<std::string>{value.Scalar()};
  std::vector<std::string> words;
  const auto scalar = [](const YAML::Node& node) -> Expected<std::string> {
    if (!node.IsScalar()) return failure(ErrorCode::kInvalidArgument, "its parts must be plain values");
    return node.Scalar();
  };
  if (!value.IsSequence() && !value.IsMap()) return failure(ErrorCode::kInvalidArgument, "has no value");
  for (const auto& part : value) {
    const auto word = scalar(value.IsMap() ? part.second : part);
    if (!word) return std::unexpected(word.error());
    words.push_back(value.IsMap() ? part.first.Scalar() + "=" + *word : *word);
  }
  return words;
}

Status add(ConfigFile& file, std::string name, const YAML::Node& value, const std::string& path) {
  std::ranges::replace(name, '_', '-');
  auto words = words_of(value);
  if (!words) return std::unexpected(std::move(words).error().within(name));
  if (name == "program") {
    file.program = std::move(*words);
    return {};
  }
  const Flag* flag = find_flag(name);
  if (flag == nullptr || flag->name == "config" || flag->name == "help" || flag->name == "version") {
    return failure(ErrorCode::kInvalidArgument, "{}: {}", name,
                   flag == nullptr ? unknown_flag_hint(name) : "cannot stand in a file");
  }
  if (flag->treatment == Treatment::kUnsupported)
    return failure(ErrorCode::kInvalidArgument, "{}: not supported: {}", name, flag->text);
  if (words->size() != 1 && flag->name != "env")
    return failure(ErrorCode::kInvalidArgument, "{}: takes one value", name);
  const std::string source = fmt::format("{} in {}", name, path);
  for (std::string& word : *words) {
    if (flag->value.empty()) {
      bool on = false;
      if (!YAML::convert<bool>::decode(YAML::Node(word), on)) {
        return failure(ErrorCode::kInvalidArgument, "{}: {} is neither true nor false", name, word);
      }
      word = on ? "1" : "0";
    }
    if (Status added = add_setting(file.settings, *flag, source, std::move(word)); !added) return added;
  }
  return {};
}

Expected<ConfigFile> read(const std::string& path) {
  auto text = read_file(path, kLimitBytes);
  if (!text) return std::unexpected(text.error());
  ConfigFile file;
  try {
    const YAML::Node root = YAML::Load(*text);
    if (!root.IsMap()) return failure(ErrorCode::kInvalidArgument, "{}: must hold `flag: value` lines", path);
    for (const auto& entry : root) {
      if (Status added = add(file, entry.first.Scalar(), entry.second, path); !added) {
        return std::unexpected(
            std::move(added).error().within(fmt::format("{} line {}", path, entry.first.Mark().line + 1)));
      }
    }
  } catch (const YAML::Exception& error) {
    return failure(ErrorCode::kInvalidArgument, "{} line {}: {}", path, error.mark.line + 1, error.msg);
  }
  return file;
}

}  // namespace

Expected<ConfigFile> read_config_file(const std::string& path) {
  auto file = read(path);
  // Keys and values are quoted, and what yaml-cpp says quotes too; line breaks among them.
  if (!file) return std::unexpected(Error(file.error().code(), one_line(file.error().message())));
  return file;
}

}  // namespace muster::launcher
