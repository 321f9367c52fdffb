// One call of `launch`: the command, its words, and where it was started; and what the commands share.
//
// A command is one function that takes an Invocation and returns the exit code. It prints; main() decides
// nothing but which one is called. Blocking.
#pragma once

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
  bool implied = false;  // the command was not named
};

// By `commands/NAME.cc`, in the order of the table of commands.
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
int completion(const Invocation& invocation);
int help(const Invocation& invocation);
int man(const Invocation& invocation);

Surroundings look_around();

// On stdout, and one line on stderr; print() and refuse() return the exit code given.
int print(std::string_view text, int exit_code = 0);
void say(const std::string& text);
int refuse(const Error& error, int exit_code);

// The flags and operands of a command that starts nothing. Has answered --help itself where it returns an
// exit code.
std::expected<CommandArguments, int> read_arguments(const Invocation& invocation);
Expected<std::string> log_directory_of(const CommandArguments& arguments, const Surroundings& here);
// The job that is meant, by its name or `preferred`.
Expected<JobEntry> find_job(const CommandArguments& arguments, const Surroundings& here, Preferred preferred);
// Says on stderr which job that is, unless its whole name was given.
void tell_which(const JobEntry& job, const CommandArguments& arguments);

}  // namespace muster::launcher
