#include "launcher/core/settings/completion.h"

#include <algorithm>

#include "common/base/text.h"
#include "launcher/core/settings/commands.h"
#include "launcher/core/settings/help.h"
#include "launcher/core/text/nearest.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};
constexpr std::string_view kJobs = "launch ps 2>/dev/null | awk 'NR > 1 { print $1 }'";
constexpr std::string_view kRunningJobs =
    "launch ps 2>/dev/null | awk 'NR > 1 && $2 == \"running\" { print $1 }'";

template <class Use>
void for_each_flag(const Command& command, Use use) {
  for (const auto flags : flags_of(command)) {
    for (const Flag& flag : flags) {
      if (flag.treatment != Treatment::kUnsupported) use(flag);
    }
  }
}

std::string joined(std::string_view text, char separator) {
  std::string words(text);
  std::ranges::replace(words, separator, ' ');
  return words;
}

bool is_choice(const Flag& flag) {
  return flag.value.find('|') != std::string_view::npos;
}

// The operands of `launch help`.
std::string topic_names() {
  std::string names = "all";
  for (const Topic& topic : topics()) names += fmt::format(" {}", topic.name);
  for (const Command& command : commands()) names += fmt::format(" {}", command.name);
  return names;
}

// ---- bash ----

std::string bash_flags(const Command& command) {
  std::string words;
  for_each_flag(command, [&](const Flag& flag) { words += fmt::format("--{} ", flag.name); });
  return words;
}

// Returns the part of the bash script that completes the values of flags. It has a case for each flag that
// takes a value.
std::string bash_values() {
  std::string cases;
  const auto add = [&cases](const Flag& flag) {
    if (flag.value.empty()) return;
    const std::string pattern =
        flag.letter == 0 ? fmt::format("--{}", flag.name) : fmt::format("--{} | -{}", flag.name, flag.letter);
    const std::string line = is_choice(flag)        ? fmt::format("compgen -W '{}'", joined(flag.value, '|'))
                             : flag.value == "DIR"  ? "compgen -d"
                             : flag.value == "FILE" ? "compgen -f"
                                                    : "";
    const std::string one =
        fmt::format("    {}) {}return ;;\n", pattern,
                    line.empty() ? "" : fmt::format("mapfile -t COMPREPLY < <({} -- \"$word\"); ", line));
    if (cases.find(one) == std::string::npos) cases += one;
  };
  for (const Command& command : commands()) for_each_flag(command, add);
  return cases;
}

std::string bash() {
  std::string names;
  std::string cases;
  for (const Command& command : commands()) {
    names += fmt::format("{} ", command.name);
    if (command.name == "run") continue;
    constexpr std::string_view kOperands[] = {"program", "job",     "running",  "shell", "topic",
                                              "none",    "running", "schedule", "sweep", "checkpoints"};
    cases += fmt::format("    {}) flags='{}'; operand={} ;;\n", command.name, bash_flags(command),
                         kOperands[static_cast<std::size_t>(command.operand)]);
  }
  return fmt::format(R"BASH(# Completion of launch for bash, made by `launch completion bash`.
# Executables whose names begin with $1, without the shell's own words.
_launch_programs() {{
  local IFS=: directory program
  for directory in $PATH; do
    for program in "$directory/$1"*; do [[ -f $program && -x $program ]] && echo "${{program##*/}}"; done
  done
  compgen -f -- "$1"
}}
_launch() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flags='{0}' operand=program
  COMPREPLY=()
  ((COMP_CWORD == 1)) || case ${{COMP_WORDS[1]}} in
{1}  esac
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{2}  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
  elif ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <({{ compgen -W '{3}' -- "$word"; _launch_programs "$word"; }} | sort -u)
  elif [[ $operand == running || $operand == job && " ${{COMP_WORDS[*]}} " =~ ' '(-f|--follow)' ' ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$({6})" -- "$word")
  elif [[ $operand == job ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$({4})" -- "$word")
  elif [[ $operand == shell ]]; then
    mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- "$word")
  elif [[ $operand == topic ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{5}' -- "$word")
  elif [[ $operand == checkpoints ]]; then
    if ((COMP_CWORD == 2)); then mapfile -t COMPREPLY < <(compgen -W '{7}' -- "$word")
    else mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi
  elif [[ $operand == sweep ]]; then
    if ((COMP_CWORD == 2)); then mapfile -t COMPREPLY < <(compgen -W '{8}' -- "$word")
    else mapfile -t COMPREPLY < <(_launch_programs "$word" | sort -u); fi
  elif [[ $operand == schedule ]]; then
    if ((COMP_CWORD == 2)); then mapfile -t COMPREPLY < <(compgen -W 'show check' -- "$word")
    else mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi
  elif [[ $operand == program ]]; then
    mapfile -t COMPREPLY < <(_launch_programs "$word" | sort -u)
  fi
}}
complete -o filenames -F _launch launch
)BASH",
                     bash_flags(*find_command("run")), cases, bash_values(), names, kJobs, topic_names(),
                     kRunningJobs, kCheckpointWords, kSweepWords);
}

// ---- zsh ----

// Puts backslashes before brackets and colons. In zsh, they would end a description.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') result += '\\';
    result += letter == '\'' ? "'\\''" : std::string(1, letter);
  }
  return result;
}

std::string zsh_flags(const Command& command) {
  std::string text;
  for_each_flag(command, [&](const Flag& flag) {
    const std::string value = flag.value.empty()     ? ""
                              : is_choice(flag)      ? fmt::format(":value:({})", joined(flag.value, '|'))
                              : flag.value == "DIR"  ? ":directory:_files -/"
                              : flag.value == "FILE" ? ":file:_files"
                                                     : fmt::format(":{}:", zsh_text(flag.value));
    const std::string about = fmt::format("[{}]{}", zsh_text(description_of(flag)), value);
    text += fmt::format("      '--{}{}'", flag.name, about);
    if (flag.letter != 0) text += fmt::format(" '-{}{}'", flag.letter, about);
    text += " \\\n";
  });
  return text;
}

std::string zsh_operand(Operand operand) {
  switch (operand) {
    case Operand::kProgram: return "'1:program:_command_names -e' '*::arguments:_normal'";
    case Operand::kJob: return "'1:job:_launch_jobs'";
    case Operand::kRunning: return "'1:job:_launch_running_jobs'";
    case Operand::kShell: return "'1:shell:(bash zsh fish)'";
    case Operand::kTopic: return fmt::format("'1:topic:({})'", topic_names());
    case Operand::kNone: return "";
    case Operand::kNodes: return "'*:job:_launch_running_jobs'";
    case Operand::kSchedule: return "'1:what:(show check)' '2:schedule:_files'";
    case Operand::kSweep: return fmt::format("'1:what:({})' '*:file:_files'", kSweepWords);
    case Operand::kCheckpoints: return fmt::format("'1:what:({})' '*:file:_files'", kCheckpointWords);
  }
  return "";
}

std::string zsh() {
  std::string names;
  std::string cases;
  for (const Command& command : commands()) {
    names += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
    const bool is_default = command.name == "run";
    cases +=
        fmt::format("    {})\n      _arguments -s \\\n{}      {} ;;\n",
                    is_default ? "run | ''" : command.name, zsh_flags(command), zsh_operand(command.operand));
  }
  return fmt::format(R"ZSH(#compdef launch
# Completion of launch for zsh, made by `launch completion zsh`.
_launch_running_jobs() {{
  local -a jobs=(${{(f)"$({3})"}})
  compadd -a jobs
}}
_launch_jobs() {{
  if ((${{words[(I)(-f|--follow)]}})); then _launch_running_jobs; return; fi
  local -a jobs=(${{(f)"$({0})"}})
  compadd -a jobs
}}
_launch() {{
  local -a names=(
{1}  )
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command names
    _command_names -e
    return
  fi
  local command=''
  if ((${{names[(I)$words[2]:*]}})); then
    command=$words[2]
    shift words
    ((CURRENT--))
  fi
  case $command in
{2}  esac
}}
if [[ $funcstack[1] == _launch ]]; then _launch "$@"; else compdef _launch launch; fi
)ZSH",
                     kJobs, names, cases, kRunningJobs);
}

// ---- fish ----

std::string fish_text(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

std::string fish_flags(const Command& command, std::string_view condition) {
  std::string text;
  for_each_flag(command, [&](const Flag& flag) {
    text += fmt::format("complete -c launch -n '{}' -l {}", condition, flag.name);
    if (flag.letter != 0) text += fmt::format(" -s {}", flag.letter);
    if (is_choice(flag)) {
      text += fmt::format(" -x -a '{}'", joined(flag.value, '|'));
    } else if (flag.value == "DIR" || flag.value == "FILE") {
      text += " -r -F";
    } else if (!flag.value.empty()) {
      text += " -x";
    }
    text += fmt::format(" -d '{}'\n", fish_text(description_of(flag)));
  });
  return text;
}

std::string fish() {
  std::string rest;
  for (const Command& command : commands()) {
    rest += fmt::format("complete -c launch -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                        fish_text(command.summary));
    const std::string condition = fmt::format("__fish_seen_subcommand_from {}", command.name);
    if (command.operand == Operand::kJob || command.operand == Operand::kRunning ||
        command.operand == Operand::kNodes)
      rest += fmt::format(
          "complete -c launch -n '{}' -f -a '({})'\n", condition,
          command.operand == Operand::kJob
              ? fmt::format(
                    "if contains -- -f (commandline -opc); or contains -- --follow (commandline -opc); "
                    "{}; else; {}; end",
                    fish_text(kRunningJobs), fish_text(kJobs))
              : fish_text(kRunningJobs));
    if (command.operand == Operand::kShell)
      rest += fmt::format("complete -c launch -n '{}' -f -a 'bash zsh fish'\n", condition);
    if (command.operand == Operand::kCheckpoints)
      rest += fmt::format("complete -c launch -n '{}' -a '{}'\n", condition, kCheckpointWords);
    if (command.operand == Operand::kSweep)
      rest += fmt::format("complete -c launch -n '{}' -a '{}'\n", condition, kSweepWords);
    if (command.operand == Operand::kSchedule)
      rest += fmt::format("complete -c launch -n '{}' -a 'show check'\n", condition);
    if (command.operand == Operand::kTopic)
      rest += fmt::format("complete -c launch -n '{}' -f -a '{}'\n", condition, topic_names());
    if (command.operand != Operand::kProgram) rest += fish_flags(command, condition);
  }
  std::string others;
  for (const Command& command : commands()) {
    if (command.operand != Operand::kProgram) others += fmt::format(" {}", command.name);
  }
  rest += fish_flags(*find_command("run"), "not __fish_seen_subcommand_from" + others);
  return "# Completion of launch for fish, made by `launch completion fish`.\n" + rest;
}

}  // namespace

Expected<std::string> completion_for(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  if (shell.empty()) return failure(ErrorCode::kInvalidArgument, "name a shell: bash, zsh or fish");
  const auto near = nearest(shell, kShells);
  return failure(ErrorCode::kInvalidArgument, "{}: unknown shell: give bash, zsh or fish{}", shell,
                 near ? fmt::format("; did you mean {}?", *near) : "");
}

}  // namespace muster::launcher
