// The texts of --help, `launch help` and `launch man`.
//
// The first page fits on one screen. The rest is sorted by topic. All texts are made from the tables of
// commands and flags (commands.h, flags.h). Pure.
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

// Returns the text of `launch --help`. It has the usage, the flags that are used most, the commands, and the
// topics.
std::string overview();
// Returns the answer to `launch help NAME`. NAME is a topic, a command, or "all". If the name is unknown,
// returns an error.
Expected<std::string> help_on(std::string_view name);
// `launch NAME --help`.
std::string help_of(const Command& command);
// Returns the man page launch(1), in roff with the man macros.
std::string man_page(std::string_view version);

// Returns a sentence. It says what the flag does, or why launch ignores or refuses it.
std::string description_of(const Flag& flag);
// Such as "-f, --follow" or "--rank RANKS".
std::string spelling_of(const Flag& flag);

}  // namespace muster::launcher
