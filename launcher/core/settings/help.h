// What --help, `launch help` and `launch man` print.
//
// The first page is one screen, and the rest is told by topic. Made from the tables of commands and flags
// (commands.h, flags.h). Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "launcher/core/settings/commands.h"

namespace muster::launcher {

struct Topic {
  std::string_view name;
  std::string_view summary;
};
std::span<const Topic> topics();

// `launch --help`: usage, the flags that are used most, commands, topics.
std::string overview();
// `launch help NAME`: a topic, a command, or "all". Errors: there is no such topic.
Expected<std::string> help_on(std::string_view name);
// `launch NAME --help`.
std::string help_of(const Command& command);
// The man page launch(1), in roff with the man macros.
std::string man_page(std::string_view version);

// What a flag does, or what becomes of it: a sentence.
std::string description_of(const Flag& flag);
// "-f, --follow", "--rank RANKS"
std::string spelling_of(const Flag& flag);

}  // namespace muster::launcher
