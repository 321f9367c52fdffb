#include "launcher/io/command_line.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "launcher/io/config_file.h"

namespace muster::launcher {

namespace {

constexpr const char* kDescription =
    "launch starts a distributed training program on several workers, watches it, and starts it again from "
    "its\n"
    "last checkpoint when something fails.";

constexpr const char* kExamples = R"(Examples:
  launch train                                    one worker
  launch --nodes 2 --gpus-per-node 2 train        four workers, as on two nodes with two GPUs each
  launch --gpus-per-node 4 --checkpoint-dir ckpt train --lr 0.1
                                                  what follows the program's name is the program's own
  launch --gpus-per-node 2 train.py               a Python script, as torchrun runs it
  launch --config job.yaml                        flags and program from a file
  launch --dry-run --nodes 2 train                show what would be started

Every flag can be given as a variable, MUSTER_NODES=2, or in the file; torchrun's flags and its PET_ variables work too.
Exit code: the first failing worker's own, or 128 + its signal. Of launch itself: 2 wrong use, 69 not enough nodes,
125 own failure, 126 cannot execute, 127 not found, 130 and 143 stopped by Ctrl-C and by TERM.
)";

std::string help_of(const Flag& flag) {
  switch (flag.treatment) {
    case Treatment::kOption: return std::string(flag.text);
    case Treatment::kAlias: return fmt::format("The same as --{}.", flag.text);
    case Treatment::kNoEffect: return fmt::format("Accepted, has no effect: {}.", flag.text);
    case Treatment::kUnsupported: return fmt::format("Not supported: {}.", flag.text);
  }
  return "";
}

// The flags as CLI11 knows them. It takes each by its full name: abbreviations and other spellings are
// resolved before.
void add_options(CLI::App& app) {
  for (const auto& [flags, group] :
       {std::pair(own_flags(), "Flags"), std::pair(torchrun_flags(), "torchrun's flags")}) {
    for (const Flag& flag : flags) {
      const std::string names =
          flag.letter == 0 ? fmt::format("--{}", flag.name) : fmt::format("-{},--{}", flag.letter, flag.name);
      const std::string text =
          help_of(flag);  // const: CLI11 takes a mutable string for the variable to be set
      CLI::Option* option = flag.value.empty()
                                ? app.add_flag(names, text)
                                : app.add_option(names, text)->type_name(std::string(flag.value));
      option->group(group)
          ->expected(flag.value.empty() ? 0 : 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      if (flag.name == "env") option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: launch [FLAGS] [--] PROGRAM [ARGUMENTS...]\n";
  }
};

std::unique_ptr<CLI::App> make_parser() {
  auto app = std::make_unique<CLI::App>(kDescription, "launch");
  app->set_help_flag();
  app->footer(kExamples);
  app->formatter(std::make_shared<HelpFormatter>());
  app->get_formatter()->column_width(34);
  add_options(*app);
  return app;
}

// The values that CLI11 finds, under the names of our options.
Expected<Settings> parse_flags(CLI::App& app, const Arguments& arguments) {
  std::vector<std::string> words;  // CLI11 wants them in reverse
  for (auto given = arguments.flags.rbegin(); given != arguments.flags.rend(); ++given) {
    words.push_back(given->value ? fmt::format("--{}={}", given->flag->name, *given->value)
                                 : fmt::format("--{}", given->flag->name));
  }
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return failure(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  Settings settings;
  for (const Arguments::Given& given : arguments.flags) {
    if (const auto known = settings.find(option_name(*given.flag));
        known != settings.end() && known->second.source == given.spelling)
      continue;
    const CLI::Option* option = app.get_option(fmt::format("--{}", given.flag->name));
    const std::vector<std::string> values =
        given.flag->value.empty() ? std::vector<std::string>{"1"} : option->results();
    for (const std::string& value : values) {
      if (Status added = add_setting(settings, *given.flag, given.spelling, value); !added)
        return std::unexpected(added.error());
    }
  }
  return settings;
}

}  // namespace

Expected<std::variant<Request, Answer>> read_command_line(const std::vector<std::string>& words,
                                                          const Surroundings& here) {
  auto arguments = sort_arguments(words);
  if (!arguments) return std::unexpected(arguments.error());
  const auto parser = make_parser();
  auto settings = parse_flags(*parser, *arguments);
  if (!settings) return std::unexpected(settings.error());
  if (settings->contains("help")) return Answer{parser->help()};
  if (settings->contains("version")) return Answer{fmt::format("launch (Muster) {}\n", MUSTER_VERSION)};
  auto variables = settings_from_environment(here.environment);
  if (!variables) return std::unexpected(variables.error());
  settings->merge(*variables);
  std::vector<std::string> program = std::move(arguments->program);
  if (const auto path = settings->find("config"); path != settings->end()) {
    auto file = read_config_file(
        (std::filesystem::path(here.working_directory) / path->second.values.back()).string());
    if (!file) return failure_within(path->second.source, Expected<Request>(std::unexpected(file.error())));
    settings->merge(file->settings);
    if (program.empty()) program = std::move(file->program);
  }
  auto options = make_options(*settings, std::move(program), here);
  if (!options) return std::unexpected(options.error());
  return Request{std::move(*options), std::move(arguments->notices)};
}

}  // namespace muster::launcher
