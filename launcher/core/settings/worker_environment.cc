#include "launcher/core/settings/worker_environment.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/wire/nccl_variables.h"

namespace muster::launcher {

namespace {

// docs/reference/environment.md lists kPassed and kPlaces. A star stands for any letters.
constexpr std::string_view kPassed[] = {
    "CUDA_*",        "NVIDIA_*",     "NCCL_*",   "GLOO_*", "TORCH_*", "TORCHINDUCTOR_*",
    "TORCHDYNAMO_*", "PYTORCH_*",    "TRITON_*", "OMP_*",  "GOMP_*",  "KMP_*",
    "MKL_*",         "OPENBLAS_*",   "UCX_*",    "FI_*",   "HF_*",    "TRANSFORMERS_*",
    "WANDB_*",       "TOKENIZERS_*", "LANG",     "LC_*",   "TZ"};
constexpr std::string_view kPlaces[] = {"PATH",        "LD_LIBRARY_PATH", "LD_PRELOAD",    "PYTHON*",
                                        "VIRTUAL_ENV", "CONDA_*",         "XDG_CACHE_HOME"};
// These variables are not passed on. Some apply to one host only. Others are set by a launcher for its
// workers.
constexpr std::string_view kKept[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "TORCHELASTIC_*",
                                      "TORCH_NCCL_ASYNC_ERROR_HANDLING"};
constexpr std::string_view kSecretWords[] = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"};

// Whether the variable is a path on this machine, as CUDA_HOME and HF_HOME are.
bool is_place(std::string_view name) {
  constexpr std::string_view kEnds[] = {"_HOME", "_PATH", "_DIR", "_ROOT", "_CACHE", "_FILE"};
  return std::ranges::any_of(kEnds, [name](std::string_view end) { return name.ends_with(end); });
}

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

bool is_in(std::string_view name, std::span<const std::string_view> patterns) {
  return std::ranges::any_of(patterns, [name](std::string_view pattern) { return matches(name, pattern); });
}

}  // namespace

bool is_secret(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return upper.ends_with("_KEY") ||
         std::ranges::any_of(kSecretWords, [&](std::string_view word) { return upper.contains(word); });
}

std::string_view shown_value(std::string_view name, std::string_view value) {
  return is_secret(name) ? "***" : value;
}

std::map<std::string, std::string> passed_environment(const Environment& here) {
  std::map<std::string, std::string> passed = passed_to_containers(here);
  for (const auto& [name, value] : here) {
    if ((is_in(name, kPlaces) || (is_in(name, kPassed) && is_place(name))) && !is_secret(name))
      passed[name] = value;
  }
  return passed;
}

std::map<std::string, std::string> passed_to_containers(const Environment& here) {
  std::map<std::string, std::string> passed;
  for (const auto& [name, value] : here) {
    if (is_in(name, kPassed) && !is_in(name, kKept) && !is_secret(name) && !is_place(name))
      passed[name] = value;
  }
  return passed;
}

Expected<std::map<std::string, std::string>> parse_env_file(std::string_view text, std::string_view source,
                                                            const Environment& here) {
  std::map<std::string, std::string> variables;
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t equals = line.find('=');
    const std::string name(line.substr(0, equals));
    if (name.empty() || name.find_first_of(" \t") != std::string::npos || line.contains('\0'))
      return failure(ErrorCode::kInvalidArgument,
                     "{} line {}: expected NAME=VALUE without spaces around the =, or NAME, "
                     "or # and a comment",
                     source, number);
    if (equals != std::string_view::npos) {
      variables[name] = line.substr(equals + 1);
    } else if (const auto found = here.find(name); found != here.end()) {
      variables[name] = found->second;
    }
  }
  return variables;
}

std::map<std::string, std::string> chosen_for_nccl(const wire::JobSpec& job, const Environment& inherited,
                                                   bool on_hosts) {
  std::map<std::string, std::string> chosen;
  const auto chosen_by_user = [&](const char* name) {
    return job.environment.contains(name) || job.inherited.contains(name) || inherited.contains(name);
  };
  const auto choose = [&](const char* name, std::string_view value) {
    if (!chosen_by_user(name)) chosen.emplace(name, value);
  };
  if (on_hosts)
    choose(wire::kNcclInterface, job.interface.empty() ? "(the interface towards node 0)" : job.interface);
  for (const wire::NcclVariable& each : wire::kNcclVariables) {
    if (wire::is_wanted(each, job.use_gpus, chosen_by_user)) choose(each.name, each.value);
  }
  if (job.use_gpus && !chosen_by_user(wire::kOldFlightRecord))
    choose(wire::kFlightRecord,
           fmt::format("{}/attempt_(number)/rank_(rank)/{}", job.log_directory, wire::kFlightRecordName));
  return chosen;
}

}  // namespace muster::launcher
