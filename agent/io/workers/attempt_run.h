// Starts the workers of one attempt on this node: finds the program, makes the environment, and forks or
// executes each worker.
//
// open() checks whether the workers can start. The environment is made once, and only the variables that
// differ are changed for each rank. No function blocks. One thread.
#pragma once

#include <array>
#include <expected>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/start/environment.h"
#include "agent/core/start/start_failure.h"
#include "agent/io/workers/process.h"
#include "agent/io/workers/processes.h"
#include "agent/io/workers/warm_start.h"

namespace muster::agent {

class AttemptRun {
 public:
  struct Setting {
    wire::JobSpec job;
    NodeContext context;
    wire::PrepareAttempt plan;
    rlimit descriptor_limit;  // of the workers
  };
  template <class T>
  using OrFailure = std::expected<T, StartFailure>;

  static OrFailure<std::unique_ptr<AttemptRun>> open(Setting setting);
  AttemptRun(const AttemptRun&) = delete;
  AttemptRun& operator=(const AttemptRun&) = delete;

  struct Started {
    Process process;
    Processes::Started facts;
  };
  // The things that only this worker gets.
  struct Given {
    std::array<int, 3> streams{};        // stdin (-1: it gets none), stdout and stderr
    std::vector<std::string> entries{};  // NAME=value; all workers get variables of the same names
    int descriptor = -1;                 // a descriptor that it keeps; -1: none
  };
  OrFailure<Started> start(LocalRank local_rank, const wire::StartWorkers& start, Given given,
                           WarmStart& warm);
  Rank rank_of(LocalRank local_rank) const { return setting_.plan.rank_of(local_rank); }
  // As Processes::other_checkpoints().
  std::string other_checkpoints() const;
  // Returns the spec of the template for the ranks of this attempt. If there is no template, returns the
  // reason.
  std::expected<TemplateSpec, std::string> wanted_template() const;
  // Returns the spec of the template for the ranks of an attempt that may come. If there is no template,
  // returns the reason.
  static std::expected<TemplateSpec, std::string> template_for(const wire::JobSpec& job,
                                                               const NodeContext& context,
                                                               const wire::PrepareAttempt& likely);

 private:
  explicit AttemptRun(Setting setting) : setting_(std::move(setting)) {}
  OrFailure<Process> execute(std::vector<std::string> arguments, const Given& given);
  Status check_directory() const;
  // Finds the programs of the wrappers, that is, of the words that precede the command of this node's ranks.
  OrFailure<void> find_wrappers();
  Status open_null();
  Status check_descriptors() const;

  Setting setting_;
  std::string program_;
  std::map<std::string, std::string, std::less<>> wrappers_;  // paths of programs, by the wrapper's name
  Environment environment_;                                   // of the last started rank
  Command command_;                                           // of the last executed rank
  UniqueFd null_;
};

}  // namespace muster::agent
