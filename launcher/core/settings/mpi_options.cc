#include "launcher/core/settings/mpi_options.h"

#include <fmt/format.h>

namespace muster::launcher {

void read_mpi(SettingReader& reader, Options& options) {
  using enum wire::Mpi;
  reader.choice("mpi", {{"auto", kAuto}, {"pmix", kPmix}, {"pmi", kPmi}, {"none", kNone}}, options.mpi);
}

void settle_mpi(Plan& plan, std::optional<wire::Mpi> of_program) {
  wire::JobSpec& job = plan.job;
  const auto backend = job.environment.find("MUSTER_BACKEND");
  const bool has_groups = backend != job.environment.end() && backend->second == "mpi";
  if (job.mpi == wire::Mpi::kAuto && has_groups) job.mpi = wire::Mpi::kPmix;
  if (job.mpi == wire::Mpi::kAuto && of_program) job.mpi = *of_program;
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

std::string mpi_text(const wire::JobSpec& job) {
  switch (job.mpi) {
    case wire::Mpi::kAuto: return "if the program needs it; each agent checks";
    case wire::Mpi::kNone: return "";
    case wire::Mpi::kPmix: return "pmix: the agents are Open MPI's PMIx servers";
    case wire::Mpi::kPmi: return "pmi: the agents are MPICH's PMI servers";
  }
  return "";
}

}  // namespace muster::launcher
