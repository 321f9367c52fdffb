#include "launcher/core/settings/mpi_options.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <string>
#include <vector>

#include "common/base/text.h"

namespace muster::launcher {

void read_mpi(SettingReader& reader, Options& options) {
  using enum wire::Mpi;
  reader.choice("mpi", {{"auto", kAuto}, {"pmix", kPmix}, {"pmi", kPmi}, {"none", kNone}}, options.mpi);
}

Expected<std::optional<wire::Mpi>> mpi_in_comment(std::string_view script) {
  constexpr std::string_view kMark = "muster:";
  for (const std::string_view line : split(script, '\n')) {
    if (!line.starts_with('#')) break;
    std::vector<std::string_view> words;
    for (const std::string_view word : split(line.substr(1), ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.empty() || words.front() != kMark) continue;
    const std::string said = fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " "));
    for (const auto& [mpi, name] : wire::Words<wire::Mpi>::kAll) {
      if (said == fmt::format("--mpi {}", name) || said == fmt::format("--mpi={}", name)) return mpi;
    }
    return failure(ErrorCode::kInvalidArgument,
                   "# muster: {}: such a comment can only say --mpi with auto, pmix, pmi or none", said);
  }
  return std::nullopt;
}

void settle_mpi(Plan& plan, std::optional<wire::Mpi> of_program) {
  wire::JobSpec& job = plan.job;
  const auto backend = job.environment.find("MUSTER_BACKEND");
  const bool has_groups = backend != job.environment.end() && backend->second == "mpi";
  if (job.mpi == wire::Mpi::kAuto && has_groups) job.mpi = wire::Mpi::kPmix;
  // If the program itself needs no MPI library, kAuto stays: it can load one later, and agents look for that.
  const bool is_script = of_program == wire::Mpi::kNone && plan.world_size() > 1;
  if (job.mpi == wire::Mpi::kAuto && of_program && !is_script) job.mpi = *of_program;
}

std::optional<std::string> mpi_notice(const Plan& plan, wire::Mpi asked, wire::Mpi of_program) {
  using enum wire::Mpi;
  const wire::Mpi chosen = plan.job.mpi;
  const bool differ = (chosen == kPmix && of_program == kPmi) || (chosen == kPmi && of_program == kPmix);
  if (!differ) return std::nullopt;
  const auto library_of = [](wire::Mpi mpi) { return mpi == kPmix ? "Open MPI" : "MPICH"; };
  return fmt::format(
      "{} is for {}, but {} is linked with {}: each rank will be alone in its own world, "
      "unless its {} was built with {}; usually {} is right",
      asked == kAuto ? "--backend mpi" : fmt::format("--mpi {}", name_of(chosen)), library_of(chosen),
      plan.job.command.front(), library_of(of_program), library_of(of_program),
      chosen == kPmix ? "PMIx" : "PMI-1",
      asked == kAuto ? "--mpi pmi with another backend" : fmt::format("--mpi {}", name_of(of_program)));
}

bool leaves_out_windows(std::string_view configuration) {
  return std::ranges::any_of(split(configuration, '\n'), [](std::string_view line) {
    std::string setting(line);
    std::erase_if(setting, [](char each) { return each == ' ' || each == '\t'; });
    return setting.starts_with("osc=^") && setting.contains("pt2pt");
  });
}

std::string mpi_text(const Plan& plan) {
  const bool is_elsewhere = plan.remote.in_containers() || !plan.program_is_here;
  switch (plan.job.mpi) {
    case wire::Mpi::kAuto: return !is_elsewhere ? "" : "if the program needs it; each agent checks";
    case wire::Mpi::kNone: return "";
    case wire::Mpi::kPmix: return "pmix: the agents are Open MPI's PMIx servers";
    case wire::Mpi::kPmi: return "pmi: the agents are MPICH's PMI servers";
  }
  return "";
}

}  // namespace muster::launcher
