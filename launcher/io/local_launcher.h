// Runs one job in this process until it is over. It connects the job to this machine (local_job.h), and takes
// the user's signals.
//
// It runs the io_context. The only thing that it decides is whether two equal signals are one. One thread.
// The plan and the objects in `Parts` must outlive the LocalLauncher.
#pragma once

#include "launcher/io/local_job.h"
#include "launcher/io/view/terminal.h"

namespace muster::launcher {

class LocalLauncher {
 public:
  struct Parts {
    asio::io_context& context;
    Terminal& terminal;
    net::LogWriter& files;
    std::string agent_program;
    int signals;  // a signalfd of INT, TERM, HUP, QUIT, USR1, USR2 and CHLD, all blocked
    bool quiet = false;
    double started_unix = 0;  // for job.json: when report.json begins to count the job's duration
  };
  LocalLauncher(const Plan& plan, const Parts& parts);
  LocalLauncher(const LocalLauncher&) = delete;
  LocalLauncher& operator=(const LocalLauncher&) = delete;
  ~LocalLauncher() { signals_.release(); }

  // Returns when the job is over and nothing of it is left. After that, job() has the result.
  void run();
  const Job& job() const { return job_.job(); }
  // Returns lines that tell the user which logs of ranks are incomplete on this machine.
  std::vector<std::string> missing_logs() const { return job_.missing_logs(); }

 private:
  void wait_for_signals();
  void read_signals();
  bool is_twin(int signal, std::int64_t sender);

  const bool local_;  // the agents are children of this process
  asio::io_context& context_;
  net::SystemTime time_;
  asio::posix::stream_descriptor signals_;
  LocalJob job_;
  struct {
    int signal = 0;
    std::int64_t sender = 0;
    TimePoint at{};
  } last_signal_;
};

}  // namespace muster::launcher
