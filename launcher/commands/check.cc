// `launch check`: says whether a job could run here, and if not, what to do.
#include <algorithm>
#include <iterator>

#include "launcher/commands/checks.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kLogBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kCheckpointBytes = std::uint64_t{10} << 30;

}  // namespace

int check(const Invocation& invocation) {
  const auto prepared = prepare(invocation);
  if (!prepared) return prepared.error();
  const Plan& plan = prepared->plan;
  if (!plan.hosts.empty()) return check_hosts(*prepared, invocation.here);
  const Demand demand = demand_of(plan);
  std::vector<Finding> findings;
  if (prepared->request.has_program) findings.push_back(check_program_file(*prepared, invocation.here));
  findings.push_back(check_torch(*prepared, invocation.here));
  if (auto spy = check_py_spy(*prepared, invocation.here)) findings.push_back(std::move(*spy));
  findings.push_back(check_gpus(*prepared));
  findings.push_back(check_agent());
  findings.push_back(check_loopback());
  findings.push_back(check_hostname(invocation.here));
  findings.push_back(check_descriptors(demand));
  findings.push_back(check_processes(demand));
  findings.push_back(check_shared_memory(demand));
  findings.push_back(check_disk("log directory", prepared->request.options.log_directory, kLogBytes));
  if (!plan.job.checkpoint_directory.empty())
    findings.push_back(check_disk("checkpoint space", plan.job.checkpoint_directory, kCheckpointBytes));
  std::ranges::move(check_checkpoints(plan), std::back_inserter(findings));
  if (auto use = check_checkpoint_use(prepared->request.options)) findings.push_back(std::move(*use));
  const int exit_code = all_fit(findings) ? 0 : 1;
  return print(prepared->request.options.json ? findings_as_json(findings)
                                              : findings_as_table(findings, terminal_columns()),
               exit_code);
}

}  // namespace muster::launcher
