// One call of `launch`. It has the command, its words, and its surroundings. This file also has the functions
// that all commands share.
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

// Each function is in `commands/NAME.cc`. They are in the same order as in the table of
// core/settings/commands.cc.
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
// Call before a command removes something. With --yes, this asks nobody. Without --yes, it shows `list` and
// asks the user. If there is no terminal, it refuses. If the command can go on, it returns nothing. Otherwise
// it returns the exit code. `what` is a text such as "remove 3 jobs".
std::optional<int> ask_before(const std::string& what, const std::string& list,
                              const CommandArguments& arguments);
// Returns the width of the terminal that stdout goes to. If stdout does not go to a terminal, returns 0, and
// tables can have any width.
std::size_t terminal_columns();

// Reads the flags and operands of a command that starts no program. If they are wrong, prints the error. If
// they contain --help, prints the help. In both cases it returns an exit code.
std::expected<CommandArguments, int> read_arguments(const Invocation& invocation);
Expected<std::string> log_directory_of(const CommandArguments& arguments, const Surroundings& here);
// Returns the number that --attempt gives. Returns nothing if the flag is not given.
Expected<std::optional<std::uint64_t>> attempt_of(const CommandArguments& arguments);
// Returns the job that the operand names. If there is no operand, or if several names match, `preferred`
// decides.
Expected<JobEntry> find_job(const CommandArguments& arguments, const Surroundings& here, Preferred preferred);
// Prints the name of the job on stderr. Does not print it if the user has given the whole name.
void tell_which(const JobEntry& job, const CommandArguments& arguments);

}  // namespace muster::launcher
