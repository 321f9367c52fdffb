#include "launcher/core/settings/arguments.h"

#include <algorithm>
#include <cctype>
#include <fmt/ranges.h>

#include "common/base/text.h"
#include "launcher/core/settings/other_tools.h"
#include "launcher/core/text/nearest.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using enum Treatment;
using Words = std::vector<std::string>;

// The flags of one command, and its name for messages.
struct FlagSet {
  FlagTables tables;
  std::string owner;
  bool is_sweep = false;  // the flags of a job and those of `launch sweep run`
};

FlagSet flags_of_run() {
  return {{own_flags(), torchrun_flags()}, "launch"};
}

FlagSet flags_with(std::span<const Flag> more) {
  return {{more, own_flags(), torchrun_flags()}, "launch", true};
}

template <class Predicate>
std::vector<const Flag*> flags_where(const FlagSet& set, Predicate predicate) {
  std::vector<const Flag*> found;
  for (const auto flags : set.tables) {
    for (const Flag& flag : flags) {
      if (predicate(flag)) found.push_back(&flag);
    }
  }
  return found;
}

// The command whose help lists all flags.
std::string help_with(const FlagSet& set) {
  if (set.is_sweep) return "launch sweep --help";
  return set.owner == "launch" ? "launch help all" : set.owner + " --help";
}

std::string hint(const FlagSet& set, std::string_view name) {
  if (const auto purpose = purpose_of_flag(set.owner, name))
    return fmt::format("not a flag of {}: {}", set.owner, *purpose);
  std::vector<std::string_view> names;
  for (const Flag* flag : flags_where(set, [](const Flag&) { return true; })) names.push_back(flag->name);
  const auto near = nearest(name, names);
  return near ? fmt::format("not a flag of {}: did you mean --{}?", set.owner, *near)
              : fmt::format("not a flag of {}: `{}` lists them", set.owner, help_with(set));
}

Expected<const Flag*> resolve(const FlagSet& set, std::string_view name, const std::string& spelling) {
  const auto exact = flags_where(set, [name](const Flag& flag) { return flag.name == name; });
  if (!exact.empty()) return exact.front();
  const auto found = flags_where(set, [name](const Flag& flag) { return flag.name.starts_with(name); });
  if (name.empty() || found.empty())
    return failure(ErrorCode::kInvalidArgument, "{}: {}", spelling, hint(set, name));
  const bool same = std::ranges::all_of(
      found, [&](const Flag* flag) { return option_name(*flag) == option_name(*found[0]); });
  if (same) return found[0];
  std::vector<std::string> names;
  for (const Flag* flag : found) names.push_back(fmt::format("--{}", flag->name));
  return failure(ErrorCode::kInvalidArgument, "{}: ambiguous: could be {}", spelling, fmt::join(names, ", "));
}

Expected<GivenFlag> read_long(const FlagSet& set, const std::string& word) {
  const std::size_t equals = word.find('=');
  std::string spelling = word.substr(0, equals);
  std::string name = spelling.substr(2);
  std::ranges::replace(name, '_', '-');
  const auto flag = resolve(set, name, spelling);
  if (!flag) return std::unexpected(flag.error());
  std::optional<std::string> value;
  if (equals != std::string::npos) value = word.substr(equals + 1);
  return GivenFlag{*flag, std::move(spelling), std::move(value)};
}

Expected<GivenFlag> read_short(const FlagSet& set, const std::string& word) {
  const auto found = flags_where(set, [&](const Flag& flag) { return flag.letter == word[1]; });
  if (found.empty()) {
    const std::string_view name = std::string_view(word).substr(1, word.find('=') - 1);  // "np" of "-np=4"
    const std::string_view known = purpose_of_flag(set.owner, name) ? name : name.substr(0, 1);
    return failure(ErrorCode::kInvalidArgument, "{}: {}", word, hint(set, known));
  }
  std::optional<std::string> value;
  if (word.size() > 2) value = word.substr(word[2] == '=' ? 3 : 2);
  return GivenFlag{found[0], word.substr(0, 2), std::move(value)};
}

bool looks_like_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

// Takes the flag at `next`, which begins with a dash. After the call, `next` points to the last word that
// belongs to the flag. This is the flag's value if the value is a word of its own.
Expected<GivenFlag> take_flag(const FlagSet& set, Words::const_iterator& next, Words::const_iterator end) {
  auto given = next->starts_with("--") ? read_long(set, *next) : read_short(set, *next);
  if (!given) return given;
  const Flag& flag = *given->flag;
  if (flag.treatment == kUnsupported) {
    return failure(ErrorCode::kInvalidArgument, "{}: not supported: {}", given->spelling, flag.text);
  }
  if (flag.value.empty() && given->value) {
    return failure(ErrorCode::kInvalidArgument, "{}: takes no value, but got {}", given->spelling,
                   *given->value);
  }
  if (!flag.value.empty() && !given->value) {
    if (next + 1 == end || looks_like_flag(next[1])) {
      return failure(ErrorCode::kInvalidArgument, "{}: the value is missing: give {} {}", given->spelling,
                     given->spelling, flag.value);
    }
    given->value = *++next;
  }
  return given;
}

bool may_be_flag(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

// Returns the advice for a command such as `launch torchrun --nnodes 2 train.py`. launch also has a flag
// --nnodes, and the user most likely means that flag.
std::string in_place_of_launcher(const Words& program, const Words& meant) {
  const Words rest(program.begin() + 1, program.end());
  const auto sorted = sort_arguments(rest);
  Words words;
  for (const std::string& word : rest) words.push_back(as_shell_word(word));
  const bool fits = sorted && !sorted->program.empty();
  return fmt::format(
      "launch takes the place of {}: `launch {}`", program.front(),
      fits ? fmt::format("{}", fmt::join(words, " ")) : fmt::format("{} PROGRAM", fmt::join(meant, " ")));
}

// Some flags among the program's arguments may be meant for launch. Returns a notice about these. Flags that
// many programs have are skipped, and so are flags that launch got as well.
std::optional<std::string> misplaced_flags(const Arguments& arguments) {
  const Words& program = arguments.program;
  constexpr std::string_view kOfManyPrograms[] = {"config", "device", "help", "json", "quiet", "version"};
  Words names, meant;
  for (std::size_t i = 1; i < program.size() && program[i] != "--"; ++i) {
    if (!program[i].starts_with("--")) continue;
    const std::size_t equals = program[i].find('=');
    std::string name = program[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::ranges::replace(name, '_', '-');
    const Flag* flag = find_flag(name);
    if (flag == nullptr || flag->treatment == kNoEffect || flag->treatment == kUnsupported) continue;
    if (std::ranges::find(kOfManyPrograms, name) != std::end(kOfManyPrograms)) continue;
    if (std::ranges::any_of(arguments.flags, [flag](const GivenFlag& given) {
          return option_name(*given.flag) == option_name(*flag);
        }))
      continue;
    names.push_back(program[i].substr(0, equals));
    meant.push_back(program[i]);
    if (!flag->value.empty() && equals == std::string::npos && i + 1 < program.size())
      meant.back() += " " + program[i + 1];
  }
  if (names.empty()) return std::nullopt;
  const bool one = names.size() == 1;
  const std::string advice = is_launcher(program.front())
                                 ? in_place_of_launcher(program, meant)
                                 : fmt::format("To give {} to launch: `launch {} {} ...`",
                                               one ? "it" : "them", fmt::join(meant, " "), program.front());
  return fmt::format("{} {} after the program and {} passed to it. {} (to silence this: `launch -- {} ...`)",
                     fmt::join(names, " and "), one ? "comes" : "come", one ? "is" : "are", advice,
                     program.front());
}

}  // namespace

Expected<Arguments> sort_arguments(const Words& words, std::span<const Flag> more) {
  FlagSet set = flags_of_run();
  if (!more.empty()) set = flags_with(more);
  Arguments result;
  auto next = words.begin();
  for (; next != words.end() && may_be_flag(*next); ++next) {
    if (*next == "--") {
      result.after_dashes = true;
      ++next;
      break;
    }
    auto given = take_flag(set, next, words.end());
    if (!given) return std::unexpected(given.error());
    if (given->flag->treatment == kNoEffect) {
      result.notices.push_back(
          fmt::format("{}: accepted, but has no effect: {}", given->spelling, given->flag->text));
    }
    result.flags.push_back(std::move(*given));
  }
  result.program.assign(next, words.end());
  if (auto misplaced = result.after_dashes ? std::nullopt : misplaced_flags(result))
    result.notices.push_back(std::move(*misplaced));
  return result;
}

std::string CommandArguments::value(std::string_view name) const {
  const auto found = flags.find(name);
  return found == flags.end() ? "" : found->second.value.value_or("");
}

Expected<std::optional<std::size_t>> CommandArguments::count(std::string_view name, std::string_view what,
                                                             std::uint32_t least) const {
  const auto found = flags.find(name);
  if (found == flags.end()) return std::nullopt;
  const auto number = parse_number<std::uint32_t>(value(name));
  if (!number || *number < least)
    return failure(ErrorCode::kInvalidArgument, "{}: {} is not a number of {}: give {} or more",
                   found->second.spelling, value(name), what, least);
  return *number;
}

Expected<CommandArguments> read_command_arguments(const Command& command, const Words& words) {
  const FlagSet set{flags_of(command), fmt::format("launch {}", command.name)};
  CommandArguments result;
  bool only_operands = false;
  for (auto next = words.begin(); next != words.end(); ++next) {
    if (only_operands || !may_be_flag(*next)) {
      result.operands.push_back(*next);
    } else if (*next == "--") {
      only_operands = true;
    } else {
      auto given = take_flag(set, next, words.end());
      if (!given) return std::unexpected(given.error());
      std::string name(given->flag->name);
      const auto before = result.flags.find(name);
      if (before != result.flags.end() && before->second.value != given->value)
        return failure(ErrorCode::kInvalidArgument, "{}: given as {} and as {}: give it once",
                       given->spelling, given_text(*before->second.value), given_text(*given->value));
      result.flags.insert_or_assign(std::move(name), std::move(*given));
    }
  }
  const bool several = command.operand == Operand::kNodes || command.operand == Operand::kCheckpoints;
  const std::size_t most = command.operand == Operand::kNone       ? 0
                           : command.operand == Operand::kSchedule ? 2
                           : several                               ? 3
                                                                   : 1;
  // The subcommands of `launch sweep` take different numbers of operands. So this does not check them.
  if (result.operands.size() > most && command.operand != Operand::kSweep) {
    return failure(ErrorCode::kInvalidArgument,
                   "{}: too many arguments: `launch {}` takes {}; see `launch {} --help`",
                   result.operands[most], command.name,
                   most == 0   ? "none"
                   : most == 1 ? "one"
                   : most == 2 ? "at most two"
                               : "at most three",
                   command.name);
  }
  return result;
}

std::string unknown_flag_hint(std::string_view name, std::span<const Flag> more) {
  return hint(more.empty() ? flags_of_run() : flags_with(more), name);
}

}  // namespace muster::launcher
