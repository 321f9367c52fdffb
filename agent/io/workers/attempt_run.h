// Everything that one attempt needs to start its workers on this node: the program's path, the environment, a
// sufficient number of descriptors.
//
// open() makes the checks that show whether the workers could start. The environment is made once and changed
// from rank to rank. Does not decide and does not wait. One thread.
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
  // The worker's own part, in addition to what all workers get.
  struct Given {
    std::array<int, 3> streams{};        // stdin (-1: it gets none), stdout and stderr
    std::vector<std::string> entries{};  // NAME=value; the names are the same for all
    int descriptor = -1;                 // a descriptor that it keeps; -1: none
  };
  OrFailure<Started> start(LocalRank local_rank, const wire::StartWorkers& start, Given given,
                           WarmStart& warm);
  Rank rank_of(LocalRank local_rank) const { return setting_.plan.rank_of(local_rank); }
  // Processes::other_checkpoints().
  std::string other_checkpoints() const;
  // The template for forking this attempt's ranks, or why there is none.
  std::expected<TemplateSpec, std::string> wanted_template() const;
  // The template for forking the ranks of a possible attempt, or why there is none.
  static std::expected<TemplateSpec, std::string> template_for(const wire::JobSpec& job,
                                                               const NodeContext& context,
                                                               const wire::PrepareAttempt& likely);

 private:
  explicit AttemptRun(Setting setting) : setting_(std::move(setting)) {}
  OrFailure<Process> execute(std::vector<std::string> arguments, const Given& given);
  Status check_directory() const;
  // Looks up the wrappers of this node's ranks.
  OrFailure<void> find_wrappers();
  Status open_null();
  Status check_descriptors() const;

  Setting setting_;
  std::string program_;
  std::map<std::string, std::string, std::less<>> wrappers_;  // by first word: the path of its program
  Environment environment_;                                   // of the last started rank
  Command command_;                                           // of the same rank
  UniqueFd null_;
};

}  // namespace muster::agent
