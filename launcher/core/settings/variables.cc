#include "launcher/core/settings/variables.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "common/base/text.h"
#include "launcher/core/text/nearest.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kPrefix = "MUSTER_";
constexpr std::string_view kParameterPrefix = "MUSTER_PARAM_";

// The other variables, without MUSTER_. Workers and trials get some of them. Others are read by programs that
// use the runtime, or by ./dev, docker/compose.yaml, tests and benchmarks.
constexpr std::string_view kOthers =
    "JOB_ID ATTEMPT NODE_ID SOCKET RESUME_STEP TRACE_FILE LOCAL_RANK CHOSEN TEMPLATE_FD PYTHON_PROCESS "
    "ASKED ASKED_PYTHON "
    "TRIAL TRIAL_DIR TRIAL_SEED SWEEP_DIR METRIC "
    "PYARROW_DIR TORCH_DIR TORCH_PYTHON VENV RUNTIME UNIT_TESTS "
    "BASE BUILD_NETWORK CONTEXT TARGET IMAGE DATA WORKERS PROGRAM JOB "
    "BENCH_RANDOM_KILLS HOSTS_SECONDS RECORDS_DIRECTORY SHM_SEEDS TEST_OPTIONS TEST_SEED TEST_TRACE";

}  // namespace

std::string variable_name(std::string_view prefix, std::string_view flag) {
  std::string name(prefix);
  for (const char letter : flag) name += letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
  return name;
}

bool has_variable(const Flag& flag) {
  constexpr std::string_view kOnlyOnCommandLines[] = {"env", "help", "version", "print-completion"};
  return std::ranges::find(kOnlyOnCommandLines, flag.name) == std::end(kOnlyOnCommandLines);
}

std::vector<std::string> notices_of_variables(const Environment& environment) {
  std::vector<std::string> notices;
  std::vector<std::string> of_flags;
  std::vector<std::string_view> known;
  for (auto next = environment.lower_bound(kPrefix);
       next != environment.end() && next->first.starts_with(kPrefix); ++next) {
    const auto& [variable, value] = *next;
    if (value.empty() || variable.starts_with(kParameterPrefix)) continue;
    if (known.empty()) {
      for (const Flag& flag : own_flags())
        if (has_variable(flag)) of_flags.push_back(variable_name("", flag.name));
      known.assign(of_flags.begin(), of_flags.end());
      std::ranges::copy(split(kOthers, ' '), std::back_inserter(known));
    }
    const std::string_view name = std::string_view(variable).substr(kPrefix.size());
    const auto near = nearest(name, known);
    if (!near || *near == name || std::ranges::find(of_flags, *near) == of_flags.end()) continue;
    notices.push_back(
        fmt::format("{}: launch reads no such variable: did you mean {}{}?", variable, kPrefix, *near));
  }
  return notices;
}

}  // namespace muster::launcher
