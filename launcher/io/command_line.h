// From words, variables and the configuration file to options; the only place that knows CLI11.
//
// Reads the configuration file, and nothing else; starts nothing. Each error is one line for the user.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/core/options.h"

namespace muster::launcher {

struct Request {
  Options options;
  std::vector<std::string> notices;  // one line each, for stderr
};
struct Answer {  // --help or --version: to be printed, and that is all
  std::string text;
};

// `words`: those after the program's own name.
Expected<std::variant<Request, Answer>> read_command_line(const std::vector<std::string>& words,
                                                          const Surroundings& here);

}  // namespace muster::launcher
