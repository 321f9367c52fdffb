#include "launcher/core/settings/help.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <iterator>
#include <vector>

#include "common/base/text.h"
#include "launcher/core/text/nearest.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kWidth = 80;

constexpr std::string_view kPurpose =
    "launch starts a distributed training program on several workers, watches it, "
    "and restarts it from its last checkpoint when something fails. "
    "Other commands show, stop and explain jobs.";
constexpr std::string_view kNamedLikeACommand =
    "To start a program that has the name of a command: `launch run status` or `launch -- status`.";
constexpr std::string_view kOtherSources =
    "Every flag of a launch can also be given as an environment variable, MUSTER_NODES=2, "
    "or in the file of --config; torchrun's flags and its PET_ variables work too. "
    "A flag wins over a variable, a variable over the file. Durations are 10 or 10s, 0.5, 5m, 1h30m, 7d.";

constexpr Topic kTopics[] = {
    {"workers", "which program to start, how many times, and with which variables"},
    {"hosts", "other machines: their names, and how launch reaches them"},
    {"containers", "nodes as containers of an image: mounts, limits, GPUs"},
    {"recovery", "checkpoints, restarts, spare nodes, preemption, time limit"},
    {"hangs", "when an agent, a worker or a step takes too long"},
    {"output", "logs, and which output is shown"},
    {"general", "configuration file, variables, dry run"},
    {"torchrun", "torchrun's own flags"},
    {"commands", "everything else that launch can do"},
    {"exit-codes", "meaning of the exit codes"},
};
constexpr std::string_view kMostUsed[] = {"nodes",   "gpus-per-node", "checkpoint-dir", "max-restarts",
                                          "log-dir", "env",           "config",         "dry-run"};

// Wraps the text to lines of at most kWidth letters. Lines after the first begin with `indent` spaces; the
// caller has written `used` letters of the first line.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t used) {
  std::string result;
  std::size_t column = used;
  for (const std::string_view word : split(text, ' ')) {
    const bool first = result.empty();
    if (!first && column + 1 + word.size() > kWidth) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result + "\n";
}

// Returns an entry in two columns: a name and its meaning. If the name is too long, the meaning begins on the
// next line.
std::string entry(std::string_view name, std::string_view meaning, std::size_t column) {
  std::string text = fmt::format("  {:<{}}", name, column - 2);
  if (!text.ends_with("  ")) text = fmt::format("  {}\n{}", name, std::string(column, ' '));
  return text + wrapped(meaning, column, column);
}

constexpr std::size_t kFlagColumn = 26;

std::string_view first_sentence(std::string_view text) {
  const std::size_t end = text.find(". ");
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

std::string flags_text(std::string_view title, std::span<const Flag> flags) {
  std::string text = fmt::format("\n{}:\n", title);
  for (const Flag& flag : flags) text += entry(spelling_of(flag), description_of(flag), kFlagColumn);
  return text;
}

std::vector<Flag> flags_on(std::string_view topic) {
  std::vector<Flag> flags;
  std::ranges::copy_if(own_flags(), std::back_inserter(flags),
                       [topic](const Flag& flag) { return flag.topic == topic; });
  return flags;
}

std::string examples_text(const Command& command) {
  std::string text = "\nExamples:\n";
  for (const Example& example : command.examples)
    text += fmt::format("  {}\n      {}\n", example.line, example.meaning);
  return text;
}

std::string exit_codes_text() {
  std::string text = "\nExit codes:\n";
  for (const ExitCode& each : exit_codes()) text += entry(each.code, each.meaning, 14);
  return text;
}

std::string commands_text() {
  std::string text = "\nCommands:\n";
  for (const Command& command : commands()) text += entry(command.name, command.summary, 14);
  return text + "\n" +
         wrapped(
             fmt::format(
                 "`launch COMMAND --help` tells more about each. {} The same holds for names that are reserved for future commands ({}), and for words with which other tools manage jobs, such as kill, ls and rm.",
                 kNamedLikeACommand, fmt::join(future_commands(), ", ")),
             0, 0);
}

std::string text_on(const Topic& topic) {
  if (topic.name == "torchrun") return flags_text("torchrun's flags", torchrun_flags());
  if (topic.name == "commands") return commands_text();
  if (topic.name == "exit-codes") return exit_codes_text();
  const std::string text = flags_text(fmt::format("Flags: {}", topic.summary), flags_on(topic.name));
  return topic.name == "general" ? text + "\n" + wrapped(kOtherSources, 0, 0) : text;
}

// ---- roff ----

// Writes dashes as minus signs, so that readers can copy them. Also escapes quotes, and a dot at the
// beginning of the text, because roff takes a line that begins with one of them for a request.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else if (letter == '\'') {
      result += "\\(aq";
    } else if (letter == '.' && result.empty()) {
      result += "\\&.";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string roff_entry(std::string_view name, std::string_view meaning) {
  return fmt::format(".TP\n.B {}\n{}\n", escaped(name), escaped(meaning));
}

std::string roff_flags(std::span<const Flag> flags) {
  std::string text;
  for (const Flag& flag : flags) text += roff_entry(spelling_of(flag), description_of(flag));
  return text;
}

std::string roff_command(const Command& command) {
  std::string text = fmt::format(".SS launch {} {}\n{}\n", command.name, escaped(usage_of(command.operand)),
                                 escaped(command.summary));
  if (!command.text.empty()) text += fmt::format(".PP\n{}\n", escaped(command.text));
  if (command.operand == Operand::kSweep) text += roff_flags(sweep_run_flags());
  text += roff_flags(command.own_flags);
  for (const Example& example : command.examples)
    text +=
        fmt::format(".PP\n.nf\n.B {}\n.fi\n.RS\n{}\n.RE\n", escaped(example.line), escaped(example.meaning));
  return text;
}

}  // namespace

std::string description_of(const Flag& flag) {
  switch (flag.treatment) {
    case Treatment::kOption: return std::string(flag.text);
    case Treatment::kAlias: return fmt::format("The same as --{}.", flag.text);
    case Treatment::kNoEffect: return fmt::format("Accepted, but has no effect: {}.", flag.text);
    case Treatment::kUnsupported: return fmt::format("Not supported: {}.", flag.text);
  }
  return "";
}

std::string spelling_of(const Flag& flag) {
  std::string text = flag.letter == 0 ? "" : fmt::format("-{}, ", flag.letter);
  text += fmt::format("--{}", flag.name);
  return flag.value.empty() ? text : fmt::format("{} {}", text, flag.value);
}

std::span<const Topic> topics() {
  return kTopics;
}

std::string overview() {
  const Command& run = *find_command("run");
  std::string text = wrapped(kPurpose, 0, 0);
  text += fmt::format(
      "\nUsage: launch [run] {}\n       launch COMMAND [FLAGS] [JOB]\nExample: {}\n\nMost used flags:\n",
      usage_of(run.operand), run.examples[1].line);
  for (const std::string_view name : kMostUsed) {
    const Flag& flag = *find_flag(name);
    text += entry(spelling_of(flag), first_sentence(flag.text), kFlagColumn);
  }
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  text += "\nCommands: " + wrapped(fmt::format("{}", fmt::join(names, ", ")), 10, 10);
  text += "\n`launch help TOPIC` or `launch help all`:\n";
  for (const Topic& topic : topics()) text += entry(topic.name, topic.summary, 14);
  return text;
}

Expected<std::string> help_on(std::string_view name) {
  if (name.empty()) return overview();
  if (const Command* command = find_command(name)) return help_of(*command);
  std::string all = overview();
  for (const Topic& topic : topics()) {
    const std::string text = text_on(topic);
    if (topic.name == name) return text.substr(1);
    all += text;
  }
  if (name == "all") return all + examples_text(*find_command("run"));
  std::vector<std::string_view> names{"all"};
  for (const Topic& topic : topics()) names.push_back(topic.name);
  for (const Command& command : commands()) names.push_back(command.name);
  const auto near = nearest(name, names);
  return failure(ErrorCode::kInvalidArgument, "{}: not a help topic: {}", name,
                 near ? fmt::format("did you mean {}?", *near) : "`launch help` lists them");
}

std::string help_of(const Command& command) {
  std::string text = wrapped(command.summary, 0, 0);
  text += fmt::format("\nUsage: launch {} {}\n", command.name, usage_of(command.operand));
  if (!command.text.empty()) text += "\n" + wrapped(command.text, 0, 0);
  if (command.operand == Operand::kSweep) text += flags_text("Flags of run and preview", sweep_run_flags());
  if (!command.own_flags.empty()) text += flags_text("Flags", command.own_flags);
  if (command.operand == Operand::kTopic) {
    text += "\nTopics:\n";
    for (const Topic& topic : topics()) text += entry(topic.name, topic.summary, 14);
  }
  text += examples_text(command);
  if (command.operand == Operand::kProgram)
    text += "\nFlags are listed by topic: `launch help` shows the topics.\n";
  return text;
}

std::string man_page(std::string_view version) {
  std::string text = fmt::format(
      ".TH LAUNCH 1 \"\" \"Muster {}\" \"Muster\"\n.SH NAME\nlaunch \\- start, "
      "watch and recover distributed training jobs\n.SH SYNOPSIS\n.B launch\n[run] {}\n.br\n.B launch\nCOMMAND [FLAGS] [JOB]\n.SH DESCRIPTION\n{}\n.PP\n{}\n",
      escaped(version), escaped(usage_of(Operand::kProgram)), escaped(kPurpose), escaped(kNamedLikeACommand));
  text += ".SH COMMANDS\n";
  for (const Command& command : commands()) text += roff_command(command);
  text += fmt::format(".SH FLAGS OF A LAUNCH\n{}\n", escaped(kOtherSources));
  for (const Topic& topic : topics()) {
    const std::string flags = roff_flags(flags_on(topic.name));
    if (!flags.empty()) text += fmt::format(".SS {}: {}\n{}", topic.name, escaped(topic.summary), flags);
  }
  text += ".SH FLAGS OF TORCHRUN\n" + roff_flags(torchrun_flags());
  text += ".SH EXIT STATUS\n";
  for (const ExitCode& each : exit_codes()) text += roff_entry(each.code, each.meaning);
  return text;
}

}  // namespace muster::launcher
