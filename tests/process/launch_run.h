// One run of the real `launch`, with its output and every process that it started.
//
// All descendants have a variable of this run in their environment, which finds them even as orphans. The
// destructor ends those that are left. Waits have deadlines; a wait that fails reports a test failure.
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
  // Adds `environment` to this process's own without MUSTER_, PET_ and SLURM_ variables. `program`: another
  // copy of launch. `start` forks, for example on another host; its argument is the run's directory.
  explicit LaunchRun(const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment = {},
                     const std::string& program = LAUNCH_PROGRAM,
                     const std::function<pid_t(const std::string&)>& start = {});
  LaunchRun(const LaunchRun&) = delete;
  LaunchRun& operator=(const LaunchRun&) = delete;
  ~LaunchRun();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for the end. Returns the exit code, or 128 + the signal that killed launch.
  int exit_code();
  std::string out() const;
  std::string err() const;
  // The report.json of the only job in the state directory.
  nlohmann::json report() const;
  std::string job_directory() const;
  // Waits until a worker or the launcher has printed the text.
  bool printed(const std::string& text) const;

  // The pids of this run's living processes, without the launcher itself.
  std::vector<pid_t> descendants() const;
  std::vector<pid_t> agents() const;
  pid_t agent_of(int node) const;  // 0 if the node has no agent
  const ScratchDirectory& scratch() const { return scratch_; }

 private:
  ScratchDirectory scratch_;
  std::string mark_;
  pid_t pid_ = 0;
  std::optional<int> exit_code_;
};

// How launch ended on a terminal; `out`: all that the terminal showed.
struct AnsweredRun {
  int exit_code;
  std::string out;
};
// Runs launch on a terminal of its own. Waits for its question, calls `meanwhile`, and types the answer.
// `words`: for a shell, without single quotes.
AnsweredRun answered_on_terminal(const std::string& words, const std::string& answer,
                                 const std::map<std::string, std::string>& environment = {},
                                 const std::function<void()>& meanwhile = {});

// Fails the test if a process of the run lives longer than this.
void expect_nothing_left(const LaunchRun& run, std::chrono::seconds limit = std::chrono::seconds(5));

}  // namespace muster
