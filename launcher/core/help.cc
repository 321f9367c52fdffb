#include "launcher/core/help.h"

#include <fmt/core.h>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kWidth = 110;

constexpr std::string_view kPurpose =
    "launch starts a distributed training program on several workers, watches it, and starts it again from "
    "its last checkpoint when something fails. Other commands show, stop and explain jobs.";
constexpr std::string_view kNamedLikeACommand =
    "A program that is named like a command is started by `launch run status` or `launch -- status`.";
constexpr std::string_view kOtherSources =
    "Every flag of a launch can be given as a variable, MUSTER_NODES=2, or in the file of --config; "
    "torchrun's flags and its PET_ variables work too. A flag wins over a variable, that over the file.";

// Lines of at most kWidth letters; those after the first begin with `indent` spaces, and so would the first:
// `used` letters of it are written.
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

// Two columns: a name, and what it means.
std::string entry(std::string_view name, std::string_view meaning, std::size_t column) {
  std::string text = fmt::format("  {:<{}}", name, column - 2);
  if (text.size() > column) text += "\n" + std::string(column, ' ');
  return text + wrapped(meaning, column, column);
}

std::string flags_text(std::string_view title, std::span<const Flag> flags) {
  std::string text = fmt::format("\n{}:\n", title);
  for (const Flag& flag : flags) text += entry(spelling_of(flag), description_of(flag), 34);
  return text;
}

std::string all_flags_text(const Command& command) {
  const FlagTables tables = flags_of(command);
  std::string text = flags_text("Flags", tables.front());
  if (tables.size() > 1) text += flags_text("torchrun's flags", tables.back());
  return text;
}

std::string examples_text(const Command& command) {
  std::string text = "\nExamples:\n";
  for (const Example& example : command.examples) text += entry(example.line, example.meaning, 50);
  return text;
}

std::string exit_codes_text() {
  std::string text = "\nExit codes:\n";
  for (const ExitCode& each : exit_codes()) text += entry(each.code, each.meaning, 14);
  return text;
}

// ---- roff ----

// A dash that is to be copied must be a minus sign, and no line may begin with a dot or a quote.
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
    case Treatment::kNoEffect: return fmt::format("Accepted, has no effect: {}.", flag.text);
    case Treatment::kUnsupported: return fmt::format("Not supported: {}.", flag.text);
  }
  return "";
}

std::string spelling_of(const Flag& flag) {
  std::string text = flag.letter == 0 ? "" : fmt::format("-{}, ", flag.letter);
  text += fmt::format("--{}", flag.name);
  return flag.value.empty() ? text : fmt::format("{} {}", text, flag.value);
}

std::string overview() {
  const Command& run = *find_command("run");
  std::string text = wrapped(kPurpose, 0, 0);
  text += fmt::format("\nUsage: launch [run] {}\n       launch COMMAND [FLAGS] [JOB]\n\nCommands:\n",
                      usage_of(run.operand));
  for (const Command& command : commands()) text += entry(command.name, command.summary, 14);
  text +=
      "\n" + wrapped(fmt::format("`launch COMMAND --help` says more of each. {}", kNamedLikeACommand), 0, 0);
  return text + all_flags_text(run) + examples_text(run) + "\n" + wrapped(kOtherSources, 0, 0) +
         exit_codes_text();
}

std::string help_of(const Command& command) {
  std::string text =
      fmt::format("{}\n\nUsage: launch {} {}\n", command.summary, command.name, usage_of(command.operand));
  if (!command.text.empty()) text += "\n" + wrapped(command.text, 0, 0);
  return text + all_flags_text(command) + examples_text(command);
}

std::string man_page(std::string_view version) {
  std::string text = fmt::format(
      ".TH LAUNCH 1 \"\" \"Muster {}\" \"Muster\"\n.SH NAME\nlaunch \\- start, watch and recover distributed "
      "training "
      "jobs\n.SH SYNOPSIS\n.B launch\n[run] {}\n.br\n.B launch\nCOMMAND [FLAGS] [JOB]\n.SH "
      "DESCRIPTION\n{}\n.PP\n{}\n",
      escaped(version), escaped(usage_of(Operand::kProgram)), escaped(kPurpose), escaped(kNamedLikeACommand));
  text += ".SH COMMANDS\n";
  for (const Command& command : commands()) text += roff_command(command);
  text += fmt::format(".SH FLAGS OF A LAUNCH\n{}\n{}", escaped(kOtherSources), roff_flags(own_flags()));
  text += ".SH FLAGS OF TORCHRUN\n" + roff_flags(torchrun_flags());
  text += ".SH EXIT STATUS\n";
  for (const ExitCode& each : exit_codes()) text += roff_entry(each.code, each.meaning);
  return text;
}

}  // namespace muster::launcher
