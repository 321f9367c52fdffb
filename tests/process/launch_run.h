// One run of the real `launch`, with what it printed and every process that it started.
//
// All descendants carry a variable of this run's own, by which they are found whatever became of their
// parents. The destructor ends what is left. Waits have deadlines; a wait that fails reports a test failure.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/scratch_directory.h"

namespace muster {

class LaunchRun {
 public:
  // `environment` is added to this process's own, without MUSTER_, PET_ and SLURM_ variables. `program` is
  // another copy of launch. `start` forks, and is given the directory of the run: launch may be on another
  // host.
  explicit LaunchRun(const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment = {},
                     const std::string& program = LAUNCH_PROGRAM,
                     const std::function<pid_t(const std::string&)>& start = {});
  LaunchRun(const LaunchRun&) = delete;
  LaunchRun& operator=(const LaunchRun&) = delete;
  ~LaunchRun();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Until it has ended: its exit code, or 128 + the signal that killed it.
  int exit_code();
  std::string out() const;
  std::string err() const;
  // The report.json of the only job in the state directory.
  nlohmann::json report() const;
  std::string job_directory() const;
  // Until the text has been printed by a worker or the launcher.
  bool printed(const std::string& text) const;

  // Of living processes of this run, without the launcher itself.
  std::vector<pid_t> descendants() const;
  std::vector<pid_t> agents() const;
  pid_t agent_of(int node) const;  // 0 if it has none
  const ScratchDirectory& scratch() const { return scratch_; }

 private:
  ScratchDirectory scratch_;
  std::string mark_;
  pid_t pid_ = 0;
  std::optional<int> exit_code_;
};

// A failure of the test if a process of the run lives for longer.
void expect_nothing_left(const LaunchRun& run, std::chrono::seconds limit = std::chrono::seconds(5));

}  // namespace muster
