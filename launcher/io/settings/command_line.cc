#include "launcher/io/settings/command_line.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/base/version.h"
#include "launcher/core/settings/arguments.h"
#include "launcher/core/settings/completion.h"
#include "launcher/core/settings/help.h"
#include "launcher/core/settings/several_launchers.h"
#include "launcher/core/settings/variables.h"
#include "launcher/core/text/words.h"
#include "launcher/io/settings/config_file.h"

namespace muster::launcher {

namespace {

// If a flag is repeated, its last value counts, as with torchrun, because scripts append flags to a list. If
// the values differ, a warning names both. For --env and similar flags, add_setting() keeps all values.
Expected<Settings> settings_of(Arguments& arguments) {
  Settings settings;
  std::map<const Flag*, const GivenFlag*> before;
  for (const GivenFlag& given : arguments.flags) {
    const GivenFlag* earlier = std::exchange(before[given.flag], &given);
    if (earlier != nullptr && !may_be_repeated(*given.flag) && earlier->value != given.value)
      arguments.notices.push_back(fmt::format("{}: given as {} and as {}: the last one counts",
                                              given.spelling, given_text(*earlier->value),
                                              given_text(*given.value)));
    // --max_restarts and --max-restarts are the same flag.
    if (earlier != nullptr) settings[std::string(option_name(*given.flag))].source = given.spelling;
    if (Status added = add_setting(settings, *given.flag, given.spelling, given.value.value_or("1")); !added)
      return std::unexpected(added.error());
  }
  return settings;
}

// Reads files of any kind, because a hostfile can be a pipe: `--hostfile <(scontrol show hostnames)`.
Status read_files(const Settings& settings, Surroundings& here) {
  constexpr std::uint64_t kLimitBytes = 16 << 20;
  for (const auto& [source, path] : files_of(settings)) {
    auto text = read_file((std::filesystem::path(here.working_directory) / path).string(), kLimitBytes);
    if (!text)
      return std::unexpected(Error(ErrorCode::kInvalidArgument,
                                   one_line(fmt::format("{}: {}", source, text.error().message()))));
    here.files[path] = *std::move(text);
  }
  return {};
}

// Reads the flags and the program. Does not read environment variables or files.
Expected<GivenWords> sorted_words(const std::vector<std::string>& words, std::span<const Flag> more) {
  auto arguments = sort_arguments(words, more);
  if (!arguments) return std::unexpected(arguments.error());
  auto settings = settings_of(*arguments);
  if (!settings) return std::unexpected(settings.error());
  return GivenWords{.settings = *std::move(settings),
                    .program = std::move(arguments->program),
                    .notices = std::move(arguments->notices),
                    .after_dashes = arguments->after_dashes};
}

// Adds settings from variables and from the file of --config. A flag counts more than a variable, and a
// variable counts more than the file.
Status add_variables_and_file(GivenWords& given, const Surroundings& here) {
  auto variables = settings_from_environment(here.environment);
  if (!variables) return std::unexpected(variables.error());
  given.settings.merge(*variables);
  std::ranges::move(notices_of_variables(here.environment), std::back_inserter(given.notices));
  const auto path = given.settings.find("config");
  if (path == given.settings.end()) return {};
  auto file =
      read_config_file((std::filesystem::path(here.working_directory) / path->second.values.back()).string(),
                       here.environment);
  if (!file) return failure_within(path->second.source, Expected<Request>(std::unexpected(file.error())));
  given.settings.merge(file->settings);
  // No program begins with a dash. So in `-- --epochs 3`, the words are more arguments for the program in the
  // file.
  std::vector<std::string>& program = given.program;
  const bool adds = given.after_dashes && !program.empty() && program.front().starts_with('-');
  if (program.empty() || (adds && !file->program.empty()))
    program.insert(program.begin(), file->program.begin(), file->program.end());
  return {};
}

}  // namespace

Expected<GivenWords> read_words(const std::vector<std::string>& words, const Surroundings& here,
                                std::span<const Flag> more) {
  auto given = sorted_words(words, more);
  if (!given) return given;
  if (Status added = add_variables_and_file(*given, here); !added) return std::unexpected(added.error());
  return given;
}

Expected<Options> read_options(const Settings& settings, std::vector<std::string> program,
                               const Surroundings& here) {
  Surroundings with_files = here;
  if (const Status read = read_files(settings, with_files); !read) return std::unexpected(read.error());
  return make_options(settings, std::move(program), with_files);
}

Expected<std::variant<Request, Answer>> read_command_line(const std::vector<std::string>& words,
                                                          const Surroundings& here, const Command& command) {
  auto given = sorted_words(words, {});
  if (!given) return std::unexpected(given.error());
  const Settings& settings = given->settings;
  if (settings.contains("help")) return Answer{command.name == "run" ? overview() : help_of(command)};
  if (settings.contains("version")) return Answer{fmt::format("launch (Muster) {}\n", kVersion)};
  if (const auto asked = settings.find("print-completion"); asked != settings.end()) {
    auto script = completion_for(asked->second.values.back());
    if (!script)
      return failure_within(asked->second.source, Expected<Answer>(std::unexpected(script.error())));
    return Answer{*std::move(script)};
  }
  const bool is_bare = !given->program.empty() && !given->after_dashes;
  if (Status added = add_variables_and_file(*given, here); !added) return std::unexpected(added.error());
  std::vector<std::string> program = std::move(given->program);
  const bool has_program = !program.empty();
  // `launch check` does not need a program. If none is given, `true` takes its place.
  if (!has_program && command.name == "check") program = {"true"};
  auto options = read_options(settings, std::move(program), here);
  if (!options) return std::unexpected(options.error());
  if (auto notice = notice_of_one_machine(settings, *options, here))
    given->notices.push_back(*std::move(notice));
  const bool may_be_command = is_bare && !options->module && !options->no_python && !options->run_path;
  const auto display = make_display_options(settings);
  if (!display) return std::unexpected(display.error());
  return Request{std::move(*options), *display, std::move(given->notices), has_program, may_be_command};
}

}  // namespace muster::launcher
