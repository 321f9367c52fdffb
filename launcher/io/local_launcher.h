// Wires a launcher to this machine: agents are child processes or run through host shells, the lineage is a
// directory, people read the terminal and files, the input is stdin, and the user sends signals.
//
// Owns everything between the launcher and one io_context, and decides nothing. One thread; the parts outlive
// it.
#pragma once

#include "launcher/io/fleet/bootstrap.h"
#include "launcher/io/launcher.h"
#include "launcher/io/local_lineage.h"
#include "launcher/io/standard_input.h"
#include "launcher/io/view/journal_file.h"
#include "launcher/io/view/local_view.h"

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

  // Returns when the job is over and nothing of it is left. job() then has the result.
  void run();
  const Job& job() const { return launcher_.controller().job(); }
  // Lines for the user about rank logs that are incomplete here.
  std::vector<std::string> missing_logs() const { return view_.missing_logs(); }

 private:
  void publish();
  void wait_for_signals();
  void read_signals();
  bool is_twin(int signal, std::int64_t sender);

  const Plan& plan_;
  asio::io_context& context_;
  Terminal& terminal_;
  const double started_unix_;
  net::SystemTime time_;
  asio::posix::stream_descriptor signals_;
  Enquiries enquiries_;
  std::unique_ptr<Bootstrap> bootstrap_;
  LocalLineage lineage_;
  LocalView view_;
  JournalFile journal_;
  std::unique_ptr<StandardInput> input_;  // null: no rank gets the input
  Launcher launcher_;
  struct {
    int signal = 0;
    std::int64_t sender = 0;
    TimePoint at{};
  } last_signal_;
};

}  // namespace muster::launcher
