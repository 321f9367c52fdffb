#include "launcher/core/settings/options.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "common/base/text.h"
#include "launcher/core/settings/debug_options.h"
#include "launcher/core/settings/host_options.h"
#include "launcher/core/settings/mpi_options.h"
#include "launcher/core/settings/setting_reader.h"
#include "launcher/core/settings/several_launchers.h"
#include "launcher/core/settings/torchrun_options.h"
#include "launcher/core/settings/variables.h"
#include "launcher/core/settings/worker_environment.h"

namespace muster::launcher {

namespace {

void read_nodes(SettingReader& reader, Options& options) {
  const Setting* setting = reader.find("nodes");
  if (setting == nullptr) return;
  const auto parts = split(setting->values.back(), ':');
  const auto low = parse_number<std::int32_t>(parts.front());
  const auto high = parse_number<std::int32_t>(parts.back());
  if (parts.size() > 2 || !low || !high || *low < 1 || *high < 1)
    return reader.refuse(*setting, "is not a number of nodes: give 1 or more, or MIN:MAX");
  if (*low > *high)
    return reader.refuse(*setting,
                         fmt::format("has MIN above MAX: give MIN:MAX, such as {}:{}", *high, *low));
  options.nodes = *high;
  if (*low < *high) options.min_nodes = *low;
}

void read_recovery(SettingReader& reader, Options& options) {
  RecoveryOptions& recovery = options.recovery;
  read_nodes(reader, options);
  reader.count("spare-nodes", 0, "nodes", options.spare_nodes);
  reader.count("max-restarts", 0, "restarts", options.max_restarts);
  reader.seconds("restart-window", false, recovery.restart_window);
  reader.seconds("restart-delay", true, recovery.restart_delay);
  reader.count("no-progress-limit", 0, "failures", recovery.no_progress_limit);
  reader.seconds("node-exclusion", true, recovery.node_exclusion);
  reader.seconds("preemption-grace", true, recovery.preemption_grace);
  reader.time("time-limit", recovery.time_limit);
  reader.flag("take-over", options.take_over);
}

void read_workers(SettingReader& reader, Options& options) {
  const Setting* setting = reader.find("gpus-per-node");
  if (setting == nullptr) return;
  using enum WorkerCount::Kind;
  options.workers_per_node.source = setting->source;
  options.workers_per_node.given = true;
  const std::string& text = setting->values.back();
  if (text == "auto" || text == "gpu" || text == "cpu") {
    options.workers_per_node.kind = text == "auto" ? kAuto : text == "gpu" ? kGpu : kCpu;
    return;
  }
  const auto number = parse_number<std::int32_t>(text);
  if (!number || *number < 1)
    return reader.refuse(*setting, "is not a number of workers: give 1 or more, or auto, gpu or cpu");
  options.workers_per_node.number = *number;
}

void read_env_files(SettingReader& reader, const Surroundings& here, Options& options) {
  const Setting* setting = reader.find("env-file");
  if (setting == nullptr) return;
  for (const std::string& path : setting->values) {
    const auto text = here.files.find(path);
    if (text == here.files.end()) return reader.refuse({setting->source, {path}}, "was not read");
    const auto variables =
        parse_env_file(text->second, fmt::format("{}: {}", setting->source, path), here.environment);
    if (!variables) return reader.fail(variables.error());
    for (const auto& [name, value] : *variables) options.added[name] = value;
  }
}

// --env wins over --env-file.
void read_environment(SettingReader& reader, const Surroundings& here, Options& options) {
  read_env_files(reader, here, options);
  const Environment& inherited = here.environment;
  const Setting* setting = reader.find("env");
  if (setting == nullptr) return;
  for (const std::string& text : setting->values) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (name.empty() || name.find_first_of(" \t\n") != std::string::npos)
      return reader.refuse({setting->source, {text}},
                           "does not name a variable: give NAME=VALUE, or NAME to pass it on");
    if (equals != std::string::npos) {
      options.added[name] = text.substr(equals + 1);
    } else if (const auto found = inherited.find(name); found != inherited.end()) {
      options.added[name] = found->second;
    } else {
      return reader.refuse({setting->source, {text}}, "is not set here: give NAME=VALUE");
    }
  }
}

// Reads --backend, and sets MUSTER_BACKEND, which the runtime reads. If the user sets this variable by --env,
// its value is not checked here.
void read_backend(SettingReader& reader, Options& options) {
  std::string backend;
  reader.choice<std::string>("backend", {{"gloo", "gloo"}, {"nccl", "nccl"}, {"mpi", "mpi"}, {"shm", "shm"}},
                             backend);
  if (!backend.empty()) options.added["MUSTER_BACKEND"] = backend;
  if (backend == "mpi" && options.mpi == wire::Mpi::kNone)
    reader.refuse(*reader.find("mpi"),
                  "leaves each rank alone, but --backend mpi needs MPI: leave out one of the two");
}

bool streams_are_valid(std::string_view text) {
  const auto one = [](std::string_view stream) {
    return stream.size() == 1 && stream[0] >= '0' && stream[0] <= '3';
  };
  if (one(text)) return true;
  return std::ranges::all_of(split(text, ','), [&](std::string_view part) {
    const std::size_t colon = part.find(':');
    return colon != std::string_view::npos && parse_number<std::uint16_t>(part.substr(0, colon)) &&
           one(part.substr(colon + 1));
  });
}

// Splits the list at commas. Two commas in a row stand for a comma within a text.
std::vector<std::string> texts_of(std::string_view list) {
  std::vector<std::string> texts(1);
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] != ',') {
      texts.back() += list[at];
    } else if (list.substr(at + 1).starts_with(',')) {
      texts.back() += list[at++];
    } else {
      texts.emplace_back();
    }
  }
  return texts;
}

void read_filters(SettingReader& reader, Options& options) {
  for (const auto& [name, texts] : {std::pair("duplicate-stdout-filters", &options.stdout_filters),
                                    std::pair("duplicate-stderr-filters", &options.stderr_filters)}) {
    const Setting* setting = reader.find(name);
    if (setting == nullptr) continue;
    *texts = texts_of(setting->values.back());
    if (std::ranges::find(*texts, "") != texts->end())
      return reader.refuse(*setting,
                           "has an empty text, which every line contains: give texts such as apple,pear");
  }
}

void read_output(SettingReader& reader, Options& options) {
  read_filters(reader, options);
  for (const auto& [name, value] :
       {std::pair("redirects", &options.redirects), std::pair("tee", &options.tee)}) {
    const Setting* setting = reader.find(name);
    if (setting == nullptr) continue;
    if (!streams_are_valid(setting->values.back())) {
      return reader.refuse(
          *setting,
          "does not name streams: give 0 to 3 (none, stdout, stderr, both), or by local rank: 0:3,1:1");
    }
    *value = setting->values.back();
  }
  const Setting* setting = reader.find("local-ranks-filter");
  if (setting == nullptr) return;
  auto& shown = options.shown_local_ranks.emplace();
  for (const std::string_view part : split(setting->values.back(), ',')) {
    const auto rank = parse_number<std::uint16_t>(part);
    if (!rank) return reader.refuse(*setting, "is not a list of local ranks: give them as 0,1");
    shown.push_back(*rank);
  }
}

void read_directories(SettingReader& reader, const Surroundings& here, Options& options) {
  const std::filesystem::path base(here.working_directory);
  const auto absolute = [&](const std::string& path) { return (base / path).lexically_normal().string(); };
  for (const auto& [name, value] : {std::pair("log-dir", &options.log_directory),
                                    std::pair("checkpoint-dir", &options.checkpoint_directory)}) {
    if (const Setting* setting = reader.find(name)) {
      if (setting->values.back().empty()) return reader.refuse(*setting, "is not a directory: give a path");
      *value = absolute(setting->values.back());
    }
  }
  if (!options.log_directory.empty()) return;
  const auto variable = [&](const char* name) {
    const auto found = here.environment.find(name);
    return found == here.environment.end() ? std::string() : found->second;
  };
  if (const std::string state = variable("XDG_STATE_HOME"); state.starts_with('/')) {
    options.log_directory = state + "/muster";
  } else if (const std::string home = variable("HOME"); home.starts_with('/')) {
    options.log_directory = home + "/.local/state/muster";
  } else {
    reader.refuse({"--log-dir", {"(not given)"}}, "has no default because HOME is not set: give a directory");
  }
}

bool is_variable(const Setting& setting) {
  return std::isupper(static_cast<unsigned char>(setting.source.front())) != 0;
}

// If a flag needs another flag that is missing, returns an error. Does not do so for variables, because a
// variable may be set for all launches.
Status check_needs(const Settings& settings) {
  struct Needed {
    std::string_view flag;
    std::vector<std::string_view> one_of;
    std::string_view why;
  };
  constexpr std::string_view kHere = "; without it all agents start on this machine";
  const std::vector<Needed> needed = {{"memory-tier",
                                       {"checkpoint-dir"},
                                       ", where the nodes leave what they hold in memory when the job ends"},
                                      {"take-over", {"checkpoint-dir"}, ", the directory that it takes over"},
                                      {"ssh-parallel", {"hosts", "hostfile"}, kHere},
                                      {"remote-agent", {"hosts", "hostfile"}, kHere},
                                      {"connect-timeout", {"hosts", "hostfile", "image"}, kHere}};
  for (const auto& [flag, one_of, why] : needed) {
    const auto given = settings.find(flag);
    const bool has_one =
        std::ranges::any_of(one_of, [&](std::string_view name) { return settings.contains(name); });
    if (given == settings.end() || has_one || given->second.values.back() == "0" ||
        is_variable(given->second))
      continue;
    return failure(ErrorCode::kInvalidArgument, "{}: needs --{}{}", given->second.source, one_of.front(),
                   why);
  }
  return {};
}

}  // namespace

Expected<std::string> log_directory_of(const Settings& settings, const Surroundings& here) {
  Options options;
  SettingReader reader(settings);
  read_directories(reader, here, options);
  if (reader.error()) return std::unexpected(*reader.error());
  return options.log_directory;
}

Status add_setting(Settings& settings, const Flag& flag, std::string source, std::string value) {
  const auto [place, is_new] = settings.try_emplace(std::string(option_name(flag)), Setting{source, {}});
  if (!is_new && place->second.source != source) {
    return failure(ErrorCode::kInvalidArgument, "{}: means the same as {}: give only one of them", source,
                   place->second.source);
  }
  place->second.values.push_back(std::move(value));
  return {};
}

Expected<Settings> settings_from_environment(const Environment& environment) {
  Settings settings;
  const bool in_a_worker = environment.contains("MUSTER_JOB_ID");
  const auto read = [&](std::string_view prefix, const Flag& flag) -> Status {
    const std::string name = variable_name(prefix, flag.name);
    const auto found = environment.find(name);
    // An empty variable counts as unset.
    if (found == environment.end() || found->second.empty()) return {};
    if (settings.contains(option_name(flag))) return {};
    std::string value = found->second;
    if (flag.value.empty()) {
      std::ranges::transform(value, value.begin(),
                             [](char letter) { return static_cast<char>(std::tolower(letter)); });
      const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
        return std::ranges::find(words, value) != words.end();
      };
      const bool is_on = is_one_of({"1", "true", "yes", "on"});
      if (!is_on && !is_one_of({"0", "false", "no", "off"}))
        return failure(ErrorCode::kInvalidArgument, "{}: '{}' is neither yes nor no: give 1 or 0", name,
                       found->second);
      value = is_on ? "1" : "0";
    }
    if (flag.treatment == Treatment::kUnsupported) {
      if (flag.value.empty() && value == "0") return {};
      return failure(ErrorCode::kInvalidArgument, "{}: not supported: {}", name, flag.text);
    }
    return add_setting(settings, flag, name, std::move(value));
  };
  // Most launches have no variable with this prefix. For these it is not necessary to look for the variable
  // of each flag.
  const auto has_any = [&](std::string_view prefix) {
    const auto first = environment.lower_bound(std::string(prefix));
    return first != environment.end() && first->first.starts_with(prefix);
  };
  if (has_any("MUSTER_")) {
    for (const Flag& flag : own_flags()) {
      // If this process is a worker of another job, these variables are meant for the worker itself.
      if (in_a_worker && (flag.name == "checkpoint-dir" || flag.name == "backend")) continue;
      if (!has_variable(flag)) continue;
      if (const Status status = read("MUSTER_", flag); !status) return std::unexpected(status.error());
    }
  }
  if (has_any("PET_")) {
    for (const auto flags : {own_flags(), torchrun_flags()}) {
      for (const Flag& flag : flags) {
        if (!has_variable(flag)) continue;
        if (const Status status = read("PET_", flag); !status) return std::unexpected(status.error());
      }
    }
  }
  // torchrun also reads these variables. They count less than its flags and its variables PET_NAME.
  constexpr std::pair<const char*, const char*> kOfTorchrunsAgent[] = {
      {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "log-line-prefix-template"},
      {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "grace"},
      {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "uninterruptible-limit"}};
  for (const auto& [name, flag] : kOfTorchrunsAgent) {
    const auto found = environment.find(name);
    if (found != environment.end() && !found->second.empty())
      settings.try_emplace(flag, Setting{name, {found->second}});
  }
  return settings;
}

std::vector<std::pair<std::string, std::string>> files_of(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> files;
  if (const auto hosts = settings.find("hostfile"); hosts != settings.end())
    files.emplace_back(hosts->second.source, hosts->second.values.back());
  if (const auto variables = settings.find("env-file"); variables != settings.end()) {
    for (const std::string& path : variables->second.values)
      files.emplace_back(variables->second.source, path);
  }
  return files;
}

Expected<Options> make_options(const Settings& settings, std::vector<std::string> program,
                               const Surroundings& here) {
  Options options;
  SettingReader reader(settings);
  read_workers(reader, options);
  reader.choice("device", {{"auto", Device::kAuto}, {"cuda", Device::kCuda}, {"cpu", Device::kCpu}},
                options.device);
  reader.flag("share-gpus", options.share_gpus);
  if (Duration limit{}; reader.find("wait-for-gpus") != nullptr) {
    reader.seconds("wait-for-gpus", false, limit);
    options.wait_for_gpus = limit;
  }
  read_recovery(reader, options);
  for (const auto& [name, field, may_be_zero] : wire::kTimeLimits)
    reader.seconds(name, may_be_zero, options.limits.*field);
  for (const auto& [name, field, least_bytes] : wire::kSizeLimits)
    reader.bytes(name, least_bytes, options.limits.*field);
  options.hang_limit_given = reader.find("hang-limit") != nullptr;
  bool warm = false;
  bool no_warm = false;
  reader.flag("warm", warm);
  reader.flag("no-warm", no_warm);
  options.warm = warm ? wire::Warm::kOn : no_warm ? wire::Warm::kOff : wire::Warm::kAuto;
  read_debug(reader, options);
  read_mpi(reader, options);
  read_environment(reader, here, options);
  read_backend(reader, options);
  read_hosts(reader, here, options);
  read_directories(reader, here, options);
  read_output(reader, options);
  read_torchrun(reader, options);
  reader.text("role", options.role);
  if (options.role.empty()) reader.refuse(*reader.find("role"), "is not a name: give one, such as trainer");
  reader.flag("module", options.module);
  reader.flag("no-python", options.no_python);
  reader.choice("store", {{"agent", true}, {"worker", false}}, options.store_on_agent);
  reader.flag("trace", options.trace);
  reader.flag("dry-run", options.dry_run);
  reader.flag("json", options.json);
  reader.flag("quiet", options.quiet);
  if (reader.error()) return std::unexpected(*reader.error());
  if (options.module && options.no_python) {
    return failure(ErrorCode::kInvalidArgument,
                   "--module and --no-python exclude each other: give one of them");
  }
  if (warm && no_warm)
    return failure(ErrorCode::kInvalidArgument, "--warm and --no-warm exclude each other: give one of them");
  if (program.empty() || program.front().empty()) {
    return failure(ErrorCode::kInvalidArgument,
                   "no program given: `launch --nodes 2 --gpus-per-node 4 PROGRAM ARGUMENTS...`");
  }
  if (options.module && program.front().ends_with(".py"))
    return failure(ErrorCode::kInvalidArgument,
                   "--module: {} is a file, not a module: leave out -m, or give -m {}", program.front(),
                   program.front().substr(0, program.front().size() - 3));
  if (Status complete = check_needs(settings); !complete) return std::unexpected(complete.error());
  options.program = std::move(program);
  if (const Status alone = refuse_several_launchers(settings, options, here); !alone)
    return std::unexpected(alone.error());
  return options;
}

std::string nodes_text(const Options& options) {
  return options.min_nodes ? fmt::format("{}:{}", *options.min_nodes, options.nodes)
                           : std::to_string(options.nodes);
}

std::int32_t streams_of(std::string_view text, std::int32_t local_rank) {
  if (text.size() == 1) return text[0] - '0';
  std::int32_t streams = 0;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon != std::string_view::npos && parse_number<std::int32_t>(part.substr(0, colon)) == local_rank)
      streams = part.back() - '0';
  }
  return streams;
}

}  // namespace muster::launcher
