// One call of `launch`: the command, its words, and its surroundings; and functions that all commands share.
//
// A command is one function that takes an Invocation, prints, and returns the exit code; main() only chooses
// the function. Blocking.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/settings/arguments.h"
#include "launcher/core/settings/options.h"
#include "launcher/core/view/job_list.h"

namespace muster::launcher {

struct Invocation {
  const Command& command;
  std::vector<std::string> words;  // after the command's name
  Surroundings here;
  bool implied = false;  // the user did not name the command
};

// Each function is in `commands/NAME.cc`. They have the order of the table in core/settings/commands.cc.
int run(const Invocation& invocation);
int plan(const Invocation& invocation);
int check(const Invocation& invocation);
int ps(const Invocation& invocation);
int status(const Invocation& invocation);
int top(const Invocation& invocation);
int nodes(const Invocation& invocation);
int logs(const Invocation& invocation);
int cancel(const Invocation& invocation);
int dump(const Invocation& invocation);
int report(const Invocation& invocation);
int replay(const Invocation& invocation);
int trace(const Invocation& invocation);
int schedule(const Invocation& invocation);
int ckpt(const Invocation& invocation);
int clean(const Invocation& invocation);
int sweep_command(const Invocation& invocation);  // `sweep` is a namespace
int completion(const Invocation& invocation);
int help(const Invocation& invocation);
int man(const Invocation& invocation);

Surroundings look_around();

// print() writes to stdout; say() and refuse() write one line to stderr. print() and refuse() return
// `exit_code`.
int print(std::string_view text, int exit_code = 0);
void say(const std::string& text);
int refuse(const Error& error, int exit_code);
// Call before a command removes something. Returns nothing if the command can go on, else its exit code. With
// --yes, it asks nobody. Without --yes, it shows `list` and asks the user; without a terminal, it refuses.
// `what`: such as "remove 3 jobs".
std::optional<int> ask_before(const std::string& what, const std::string& list,
                              const CommandArguments& arguments);
// The width of the terminal that stdout goes to. 0: stdout goes elsewhere, and tables can have any width.
std::size_t terminal_columns();

// The flags and operands of a command that starts no program. Returns an exit code after it has printed an
// error, or the help for --help.
std::expected<CommandArguments, int> read_arguments(const Invocation& invocation);
Expected<std::string> log_directory_of(const CommandArguments& arguments, const Surroundings& here);
// The number that --attempt gives, if it is given.
Expected<std::optional<std::uint64_t>> attempt_of(const CommandArguments& arguments);
// The job that the operand names; without an operand, or if several names match, `preferred` decides.
Expected<JobEntry> find_job(const CommandArguments& arguments, const Surroundings& here, Preferred preferred);
// Prints the job's name on stderr, unless the user gave the whole name.
void tell_which(const JobEntry& job, const CommandArguments& arguments);

}  // namespace muster::launcher
