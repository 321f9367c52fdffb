#include "launcher/core/flags.h"

#include <algorithm>
#include <cctype>
#include <fmt/ranges.h>

#include "launcher/core/nearest.h"

namespace muster::launcher {

namespace {

using enum Treatment;

constexpr Flag kOwnFlags[] = {
    {"nodes", 0, "N", kOption,
     "Number of nodes; each gets one agent (default 1). All run on this machine. MIN:MAX: go on with fewer, "
     "at least MIN, when one is lost; the next restart grows again."},
    {"spare-nodes", 0, "K", kOption,
     "Further nodes whose agents wait, ready to take the place of lost ones (default 0)."},
    {"gpus-per-node", 0, "M", kOption,
     "Workers on each node: a number, or auto, gpu, cpu: what the machine has, shared by its nodes (default "
     "1)."},
    {"device", 0, "auto|cuda|cpu", kOption,
     "cuda: fail unless each worker can have a GPU; cpu: show workers none (default auto)."},
    {"max-restarts", 0, "K", kOption,
     "Start all workers again after a failure, at most K times within --restart-window (default 3; "
     "torchrun's "
     "is 0)."},
    {"restart-window", 0, "SECONDS", kOption, "Restarts longer ago do not count (default 3600)."},
    {"restart-delay", 0, "SECONDS", kOption,
     "Wait so long before a second restart without progress, then twice as long each time, 30 s at most "
     "(default 1; the first restart is immediate)."},
    {"no-progress-limit", 0, "K", kOption,
     "Stop with exit code 93 after K failures in a row that are the same, without a new checkpoint (default "
     "3; 0: never)."},
    {"node-exclusion", 0, "SECONDS", kOption,
     "Leave out a node that was lost twice within --restart-window for so long, if the job can do without it "
     "(default 600; 0: never)."},
    {"preemption-grace", 0, "SECONDS", kOption,
     "Time that workers have to save and leave after SIGTERM or SIGUSR1, if they can (default 30)."},
    {"time-limit", 0, "[[HH:]MM:]SS", kOption,
     "Stop the job after this time; workers that can are told --preemption-grace before it, so that they "
     "save."},
    {"checkpoint-dir", 0, "DIR", kOption,
     "Where the workers keep checkpoints; attempts resume from the newest complete one."},
    {"log-dir", 0, "DIR", kOption,
     "Logs and report.json go to DIR/JOB (default ${XDG_STATE_HOME:-~/.local/state}/muster)."},
    {"env", 0, "K=V", kOption,
     "Set a variable for the workers; K alone passes on its value here. May be repeated."},
    {"config", 0, "FILE", kOption,
     "Read flags from a YAML file: `nodes: 2`, ..., and `program: [train, --lr, 0.1]`."},
    {"grace", 0, "SECONDS", kOption, "Time that workers have between TERM and KILL (default 10)."},
    {"controller-grace", 0, "SECONDS", kOption,
     "Time that workers live on when this launcher is gone (default 30)."},
    {"silence-limit", 0, "SECONDS", kOption, "An agent that says nothing for so long is lost (default 10)."},
    {"heartbeat-limit", 0, "SECONDS", kOption,
     "A worker that sent heartbeats, and then none for so long, hangs (default 30; 0: not watched)."},
    {"hang-limit", 0, "SECONDS", kOption,
     "A step or section may take so long until its usual time is known (default 600; 0: not watched)."},
    {"warm", 0, "", kOption,
     "Fork workers from a loaded copy of the program (default: if it links Muster::warm_start)."},
    {"no-warm", 0, "", kOption, "Execute every worker, although the program could be forked."},
    {"redirects", 'r', "STREAMS", kOption,
     "Keep output off the terminal: 1 stdout, 2 stderr, 3 both, or by local rank: 0:3,1:1. Files are always "
     "written."},
    {"tee", 't', "STREAMS", kOption, "Show these streams although --redirects names them; same values."},
    {"local-ranks-filter", 0, "RANKS", kOption, "Show the output of these local ranks only: 0,1."},
    {"module", 'm', "", kOption, "The program is a Python module."},
    {"no-python", 0, "", kOption, "Execute the program itself, although its name ends in .py."},
    {"role", 0, "NAME", kOption, "Name of the workers' role (default \"default\")."},
    {"control", 0, "socket|tcp", kOption,
     "How agents on this machine are spoken to: inherited sockets, or TCP with TLS (default socket)."},
    {"store", 0, "agent|worker", kOption,
     "Who serves the workers' c10d store: the first agent, or rank 0 (default agent)."},
    {"dry-run", 0, "", kOption, "Print what would be started, and touch nothing."},
    {"json", 0, "", kOption,
     "Print the report (or the plan) as JSON on stdout; the workers' output goes to stderr."},
    {"quiet", 0, "", kOption, "Print only the workers' output and errors."},
    {"version", 0, "", kOption, "Print the version."},
    {"help", 'h', "", kOption, "Print this help."},
};

bool matches(const Flag& flag, std::string_view prefix) {
  return flag.name.starts_with(prefix);
}

template <class Predicate>
std::vector<const Flag*> flags_where(Predicate predicate) {
  std::vector<const Flag*> found;
  for (const auto flags : {own_flags(), torchrun_flags()}) {
    for (const Flag& flag : flags) {
      if (predicate(flag)) found.push_back(&flag);
    }
  }
  return found;
}

Expected<const Flag*> resolve(std::string_view name, const std::string& spelling) {
  if (const Flag* exact = find_flag(name)) return exact;
  auto found = flags_where([name](const Flag& flag) { return matches(flag, name); });
  if (name.empty() || found.empty()) {
    return failure(ErrorCode::kInvalidArgument, "{}: {}", spelling, unknown_flag_hint(name));
  }
  const bool same = std::ranges::all_of(
      found, [&](const Flag* flag) { return option_name(*flag) == option_name(*found[0]); });
  if (same) return found[0];
  std::vector<std::string> names;
  for (const Flag* flag : found) names.push_back(fmt::format("--{}", flag->name));
  return failure(ErrorCode::kInvalidArgument, "{}: could be {}: write it out", spelling,
                 fmt::join(names, ", "));
}

// A flag as it stands in one word, before its value is looked for in the next.
struct Word {
  const Flag* flag;
  std::string spelling;
  std::optional<std::string> value;
};

Expected<Word> read_long(const std::string& word) {
  const std::size_t equals = word.find('=');
  std::string spelling = word.substr(0, equals);
  std::string name = spelling.substr(2);
  std::ranges::replace(name, '_', '-');
  const auto flag = resolve(name, spelling);
  if (!flag) return std::unexpected(flag.error());
  std::optional<std::string> value;
  if (equals != std::string::npos) value = word.substr(equals + 1);
  return Word{*flag, std::move(spelling), std::move(value)};
}

Expected<Word> read_short(const std::string& word) {
  const auto found = flags_where([&](const Flag& flag) { return flag.letter == word[1]; });
  if (found.empty()) {
    return failure(ErrorCode::kInvalidArgument, "{}: not a flag of launch: `launch --help` lists them", word);
  }
  std::optional<std::string> value;
  if (word.size() > 2) value = word.substr(word[2] == '=' ? 3 : 2);
  return Word{found[0], word.substr(0, 2), std::move(value)};
}

bool looks_like_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

}  // namespace

std::span<const Flag> own_flags() {
  return kOwnFlags;
}

const Flag* find_flag(std::string_view name) {
  const auto found = flags_where([name](const Flag& flag) { return flag.name == name; });
  return found.empty() ? nullptr : found[0];
}

std::string_view option_name(const Flag& flag) {
  return flag.treatment == kAlias ? flag.text : flag.name;
}

std::string unknown_flag_hint(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Flag* flag : flags_where([](const Flag&) { return true; })) names.push_back(flag->name);
  const auto near = nearest(name, names);
  return near ? fmt::format("not a flag of launch: did you mean --{}?", *near)
              : "not a flag of launch: `launch --help` lists them";
}

Expected<Arguments> sort_arguments(const std::vector<std::string>& words) {
  Arguments result;
  auto next = words.begin();
  for (; next != words.end() && next->size() > 1 && next->front() == '-'; ++next) {
    if (*next == "--") {
      ++next;
      break;
    }
    auto word = next->starts_with("--") ? read_long(*next) : read_short(*next);
    if (!word) return std::unexpected(word.error());
    const Flag& flag = *word->flag;
    if (flag.treatment == kUnsupported) {
      return failure(ErrorCode::kInvalidArgument, "{}: not supported: {}", word->spelling, flag.text);
    }
    if (flag.value.empty() && word->value) {
      return failure(ErrorCode::kInvalidArgument, "{}: takes no value, but was given {}", word->spelling,
                     *word->value);
    }
    if (!flag.value.empty() && !word->value) {
      if (next + 1 == words.end() || looks_like_flag(next[1])) {
        return failure(ErrorCode::kInvalidArgument, "{}: its value is missing: give {} {}", word->spelling,
                       word->spelling, flag.value);
      }
      word->value = *++next;
    }
    if (flag.treatment == kNoEffect) {
      result.notices.push_back(fmt::format("{}: accepted, has no effect: {}", word->spelling, flag.text));
    } else {
      result.flags.push_back({&flag, std::move(word->spelling), std::move(word->value)});
    }
  }
  result.program.assign(next, words.end());
  return result;
}

}  // namespace muster::launcher
