// Makes options from the command line, variables and the configuration file.
//
// Reads no files except those that the settings name. Starts nothing. Each error is one line for the user.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/core/settings/commands.h"
#include "launcher/core/settings/display_options.h"
#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct Request {
  Options options;
  DisplayOptions display;
  std::vector<std::string> notices;  // one line each, for stderr
  bool has_program = true;           // false only for `check`
  bool may_be_command = false;       // no flag or `--` says that the first word is a program
};
struct Answer {  // to --help or --version: print it and end
  std::string text;
};

// Reads a command line. `words` are the words that follow the name of `command`. `command` has to be one that
// takes a program.
Expected<std::variant<Request, Answer>> read_command_line(const std::vector<std::string>& words,
                                                          const Surroundings& here,
                                                          const Command& command = *find_command("run"));

// The words of a command that starts programs. The values of its settings have not been checked yet.
struct GivenWords {
  Settings settings;
  std::vector<std::string> program;
  std::vector<std::string> notices;
  bool after_dashes = false;  // `--` stands before the program
};
// Reads the words, the variables and the file of --config. `more` are the flags that the command has in
// addition to those of a job.
Expected<GivenWords> read_words(const std::vector<std::string>& words, const Surroundings& here,
                                std::span<const Flag> more);
// Reads the files that the settings name. Then makes the options of a job.
Expected<Options> read_options(const Settings& settings, std::vector<std::string> program,
                               const Surroundings& here);

}  // namespace muster::launcher
