#include "launcher/io/settings/config_file.h"

#include <algorithm>
#include <cctype>
#include <fmt/ranges.h>
#include <set>
#include <yaml-cpp/yaml.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "launcher/core/settings/arguments.h"
#include "launcher/core/text/variable_name.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kLimitBytes = 1 << 20;

struct Reading {
  const std::string& path;
  const Environment& environment;
  bool is_sweep = false;
  ConfigFile file{};
  nlohmann::ordered_json space = nlohmann::ordered_json::object();
  std::map<std::string, int, std::less<>> lines{};  // by option
};

// Expands `~` at the beginning, $NAME and ${NAME}. $$ becomes a dollar sign. If the environment has no
// variable of a name, the name stays as it is if `may_stay` is true. Otherwise it is an error.
Expected<std::string> expanded(std::string_view text, const Environment& environment, bool may_stay) {
  std::string result;
  const auto value_of = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  if (text == "~" || text.starts_with("~/")) {
    const auto home = value_of("HOME");
    if (!home) return failure(ErrorCode::kInvalidArgument, "{}: HOME is not set", text);
    result = *home;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find('$'), text.size());
    result += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    const auto [name, size] = name_in(text.substr(1));
    const bool is_name = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0;
    const auto value = is_name ? value_of(name) : std::nullopt;
    if (is_name && !value && !may_stay)
      return failure(ErrorCode::kInvalidArgument, "${} is not set: set it, or write $$ for a dollar sign",
                     name);
    result += value ? *value : text.substr(0, 1 + size);
    text.remove_prefix(1 + size);
  }
  return result;
}

// Returns the list in YAML that the user probably meant, such as `[train, --lr, 0.1]`.
std::string as_list(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+=$~-";
  std::vector<std::string> words;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    const bool plain = word.find_first_not_of(kPlain) == std::string_view::npos;
    words.push_back(plain ? std::string(word) : fmt::format("\"{}\"", word));
  }
  return fmt::format("[{}]", fmt::join(words, ", "));
}

// Returns the words of a value. A scalar gives one word, and a list gives several. A map gives words of the
// form KEY=VALUE; `env` needs this.
Expected<std::vector<std::string>> words_of(const YAML::Node& value, const std::string& name,
                                            const Environment& environment) {
  if (!value.IsScalar() && !value.IsSequence() && !value.IsMap())
    return failure(ErrorCode::kInvalidArgument, "has no value: write `{}: VALUE`", name);
  const auto word_of = [&](const YAML::Node& node) -> Expected<std::string> {
    if (!node.IsScalar()) return failure(ErrorCode::kInvalidArgument, "its parts must be plain values");
    // In this value, ${NAME} stands for a field of the line prefix and not for a variable.
    if (name == "log-line-prefix-template") return node.Scalar();
    return expanded(node.Scalar(), environment, /*may_stay=*/name == "program");
  };
  std::vector<std::string> words;
  std::set<std::string> keys;
  const auto add = [&](const Expected<std::string>& word, const std::string& before) -> Status {
    if (!word) return std::unexpected(word.error());
    words.push_back(before + *word);
    return {};
  };
  if (value.IsScalar()) {
    if (Status added = add(word_of(value), ""); !added) return std::unexpected(added.error());
    return words;
  }
  for (const auto& part : value) {
    if (value.IsMap() && !keys.insert(part.first.Scalar()).second)
      return failure(ErrorCode::kInvalidArgument, "{} appears twice", part.first.Scalar());
    const Status added =
        value.IsMap() ? add(word_of(part.second), part.first.Scalar() + "=") : add(word_of(part), "");
    if (!added) return std::unexpected(added.error());
  }
  return words;
}

Status check_new(Reading& reading, const std::string& option, int line) {
  const auto [place, is_new] = reading.lines.try_emplace(option, line);
  if (is_new) return {};
  return failure(ErrorCode::kInvalidArgument, "{}: already given in line {}: give it once", option,
                 place->second);
}

Status add_program(Reading& reading, const YAML::Node& value) {
  if (value.IsScalar())
    return failure(ErrorCode::kInvalidArgument, "program: is a list of words: write `program: {}`",
                   as_list(value.Scalar()));
  if (!value.IsSequence())
    return failure(ErrorCode::kInvalidArgument,
                   "program: is a list of words: write `program: [./train, --lr, 0.1]`");
  auto words = words_of(value, "program", reading.environment);
  if (!words) return failure_within("program", std::move(words));
  reading.file.program = *std::move(words);
  return {};
}

// If a scalar has no quotes and looks like a number or a boolean, it is one. In quotes it is a text.
nlohmann::ordered_json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    auto object = nlohmann::ordered_json::object();
    for (const auto& entry : node) object[entry.first.Scalar()] = json_of(entry.second);
    return object;
  }
  if (node.IsSequence()) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& part : node) array.push_back(json_of(part));
    return array;
  }
  if (!node.IsScalar()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // in quotes
  if (const auto whole = parse_number<std::int64_t>(text)) return *whole;
  if (const auto real = parse_number<double>(text)) return *real;
  bool boolean = false;
  if (YAML::convert<bool>::decode(node, boolean)) return boolean;
  return text;
}

const Flag* flag_of(const Reading& reading, std::string_view name) {
  const auto more = sweep_run_flags();
  const auto found = std::ranges::find(more, name, &Flag::name);
  return reading.is_sweep && found != more.end() ? &*found : find_flag(name);
}

Status add(Reading& reading, std::string name, const YAML::Node& value, int line) {
  std::ranges::replace(name, '_', '-');
  const Flag* flag = flag_of(reading, name);
  if (Status is_new = check_new(reading, flag == nullptr ? name : std::string(option_name(*flag)), line);
      !is_new)
    return is_new;
  if (name == "program") return add_program(reading, value);
  if (reading.is_sweep && (name == "space" || name == "constraints")) {
    reading.space[name] = json_of(value);
    return {};
  }
  constexpr std::string_view kNotInFiles[] = {"config", "help", "print-completion", "version"};
  if (flag == nullptr || std::ranges::find(kNotInFiles, flag->name) != std::end(kNotInFiles)) {
    return failure(ErrorCode::kInvalidArgument, "{}: {}", name,
                   flag == nullptr ? unknown_flag_hint(
                                         name, reading.is_sweep ? sweep_run_flags() : std::span<const Flag>())
                                   : "not allowed in a configuration file");
  }
  if (flag->treatment == Treatment::kUnsupported)
    return failure(ErrorCode::kInvalidArgument, "{}: not supported: {}", name, flag->text);
  auto words = words_of(value, name, reading.environment);
  if (!words) return failure_within(name, std::move(words));
  if (words->size() != 1 && !may_be_repeated(*flag))
    return failure(ErrorCode::kInvalidArgument, "{}: takes one value, but got {}{}", name, words->size(),
                   name == "metric" ? fmt::format(": write {}", fmt::join(*words, ",")) : "");
  const std::string source = fmt::format("{} in {}", name, reading.path);
  for (std::string& word : *words) {
    if (flag->value.empty()) {
      bool on = false;
      if (!YAML::convert<bool>::decode(YAML::Node(word), on)) {
        return failure(ErrorCode::kInvalidArgument, "{}: {} is neither true nor false", name,
                       given_text(word));
      }
      word = on ? "1" : "0";
    }
    if (Status added = add_setting(reading.file.settings, *flag, source, std::move(word)); !added)
      return added;
  }
  return {};
}

std::string_view in_plain_words(std::string_view message) {
  if (message == YAML::ErrorMsg::END_OF_SEQ_FLOW) return "a ] is missing";
  if (message == YAML::ErrorMsg::END_OF_MAP_FLOW) return "a } is missing";
  return message;
}

// yaml-cpp's message says little if an indentation is wrong. So this function appends the wrong line of the
// file to the message.
Error unreadable(const std::string& path, const std::string& text, const YAML::Exception& error) {
  if (error.mark.is_null()) return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, error.msg)};
  const auto lines = split(text, '\n');
  const auto number = std::min(static_cast<std::size_t>(error.mark.line), lines.size() - 1);
  const std::string_view line = lines[number];
  const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
  const bool indented = line.starts_with(' ') || line.starts_with('\t');
  return {
      ErrorCode::kInvalidArgument,
      fmt::format(
          "{} line {}{}: {}{}", path, number + 1, blank ? "" : fmt::format(": `{}`", line.substr(0, 200)),
          in_plain_words(error.msg),
          indented && !blank ? ": begin keys in the first column, and indent their values with spaces" : "")};
}

Status read(Reading& reading) {
  const std::string& path = reading.path;
  auto text = read_file(path, kLimitBytes);
  if (!text) return std::unexpected(text.error());
  try {
    const YAML::Node root = YAML::Load(*text);
    if (!root.IsMap()) return failure(ErrorCode::kInvalidArgument, "{}: must have `flag: value` lines", path);
    for (const auto& entry : root) {
      const int line = entry.first.Mark().line + 1;
      if (Status added = add(reading, entry.first.Scalar(), entry.second, line); !added)
        return failure_within(fmt::format("{} line {}", path, line), std::move(added));
    }
  } catch (const YAML::Exception& error) {
    return std::unexpected(unreadable(path, *text, error));
  }
  return {};
}

// Messages of Muster and yaml-cpp quote keys and values. These may contain line breaks. So this makes one
// line of each error.
Expected<Reading> read_all(const std::string& path, const Environment& environment, bool is_sweep) {
  Reading reading{.path = path, .environment = environment, .is_sweep = is_sweep};
  if (const Status done = read(reading); !done)
    return std::unexpected(Error(done.error().code(), one_line(done.error().message())));
  return reading;
}

}  // namespace

Expected<ConfigFile> read_config_file(const std::string& path, const Environment& environment) {
  auto reading = read_all(path, environment, /*is_sweep=*/false);
  if (!reading) return std::unexpected(reading.error());
  return std::move(reading->file);
}

Expected<SweepFile> read_sweep_file(const std::string& path, const Environment& environment) {
  auto reading = read_all(path, environment, /*is_sweep=*/true);
  if (!reading) return std::unexpected(reading.error());
  return SweepFile{std::move(reading->file), std::move(reading->space)};
}

}  // namespace muster::launcher
