// `launch check --hosts`: says whether a job could run on these hosts.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/random.h>

#include "common/base/file.h"
#include "launcher/commands/checks.h"
#include "launcher/core/settings/mpi_options.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/fleet/container_preparation.h"
#include "launcher/io/fleet/host_survey.h"
#include "launcher/io/fleet/local_bootstrap.h"

namespace muster::launcher {

namespace {

// A file that exists while this object lives.
class Mark {
 public:
  explicit Mark(const std::string& directory) {
    if (directory.empty()) return;
    std::error_code error;
    if (!std::filesystem::exists(directory, error) && make_directories(directory)) made_ = directory;
    std::uint64_t nonce = 0;
    (void)getrandom(&nonce, sizeof nonce, 0);
    path_ = fmt::format("{}/.check-{:016x}", directory, nonce);
    std::ofstream(path_) << "launch check\n";
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
    if (!made_.empty()) std::filesystem::remove(made_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string made_;
};

// Looks at the configuration on this machine, because hosts usually have the same Open MPI.
void tell_of_windows(const Plan& plan) {
  const bool is_set = plan.job.environment.contains("OMPI_MCA_osc") || std::getenv("OMPI_MCA_osc") != nullptr;
  if (plan.job.mpi != wire::Mpi::kPmix || plan.hosts.size() < 2 || is_set) return;
  constexpr const char* kFile = "/etc/openmpi/openmpi-mca-params.conf";
  if (leaves_out_windows(read_file(kFile, 1 << 20).value_or("")))
    say(
        fmt::format("{} leaves out osc/pt2pt: MPI windows between hosts need --env OMPI_MCA_osc=pt2pt, "
                    "unless the hosts have another network than Ethernet",
                    kFile));
}

}  // namespace

int check_hosts(const Prepared& prepared, const Surroundings& here) {
  Plan plan = prepared.plan;
  const auto agent_program = LocalBootstrap::find_agent_program();
  if (!agent_program) return refuse(agent_program.error(), kExitInternal);
  std::string directory = std::filesystem::temp_directory_path().string() + "/muster-check-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr)
    return refuse(system_failure("cannot make a directory in " + directory, errno).error(), kExitInternal);
  const HostDemand demand{.program = prepared.request.has_program,
                          .checkpoint_directory = plan.job.checkpoint_directory};
  if (!demand.program) plan.job.command = {python_of(here)};  // the survey looks for this Python's torch
  for (Mount& mount : plan.remote.container.mounts) {         // replaces the job's log directory
    if (mount.destination == plan.job.log_directory) mount.source = mount.destination = directory;
  }
  plan.job.log_directory = directory;
  std::vector<HostReport> reports;
  int failed = 0;
  {
    const Mark mark(demand.checkpoint_directory);
    if (plan.remote.bootstrap == BootstrapKind::kDocker) failed = prepare_containers(plan, {-1, say});
    if (failed == 0) reports = HostSurvey(plan, *agent_program, mark.path()).run();
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  if (failed != 0) return failed;
  tell_of_windows(prepared.plan);
  const bool json = prepared.request.options.json;
  return print(json ? hosts_as_json(reports, demand) : hosts_as_table(reports, demand, terminal_columns()),
               obstacles(reports, demand).empty() ? 0 : 1);
}

}  // namespace muster::launcher
