// A minimal launcher for tests of the agent: starts a real agent over a socketpair and exchanges frames with
// it.
//
// Each wait is for a message, with a deadline; a wait that fails reports a test failure and returns nothing.
// One thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <variant>
#include <vector>

#include "common/base/file.h"
#include "common/wire/codec.h"

namespace muster {

class TestLauncher {
 public:
  struct Options {
    std::function<void()> in_child{};        // called between fork and exec of the agent
    std::vector<std::string> environment{};  // NAME=value, added to this process's environment
    std::string error_file{};                // the file for the agent's stderr
    // Talks over the agent's stdin and stdout, after its preamble; adds these arguments.
    bool stdio = false;
    std::vector<std::string> arguments{"--stdio"};
  };
  explicit TestLauncher(Options options);
  TestLauncher(const TestLauncher&) = delete;
  TestLauncher& operator=(const TestLauncher&) = delete;
  ~TestLauncher();

  pid_t agent_pid() const { return agent_; }
  void send(const wire::ToAgent& message);
  void send_bytes(const std::string& bytes);  // without encoding
  void welcome(const wire::JobSpec& job) { send(wire::Welcome{NodeId(0), job}); }
  // Prepares and starts one attempt of `count` workers. Returns their pids; empty if the agent refused.
  std::vector<std::int32_t> start(std::int32_t count);
  void prepare(std::int32_t count);
  void set_attempt(Attempt attempt) { attempt_ = attempt; }
  // The next message of this kind; keeps the messages before it in `seen`.
  template <class Message>
  std::optional<Message> wait_for() {
    while (auto message = next()) {
      seen.push_back(*message);
      if (auto* wanted = std::get_if<Message>(&seen.back())) return *wanted;
    }
    return std::nullopt;
  }
  // All messages of one kind so far.
  template <class Message>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const auto& message : seen) {
      if (auto* wanted = std::get_if<Message>(&message)) found.push_back(*wanted);
    }
    return found;
  }
  // The output of one stream of one rank, as the terminal would show it.
  std::string output(std::int32_t rank, std::int32_t stream) const;
  void hang_up() { socket_.reset(); }
  // Waits for the agent's end. Returns its exit code, or 128 + signal.
  int agent_exit();

  std::vector<wire::ToLauncher> seen;
  std::vector<std::string> preamble;  // the lines of the preamble

 private:
  void read_preamble();
  std::optional<wire::ToLauncher> next();

  UniqueFd socket_;
  pid_t agent_ = 0;
  bool reaped_ = false;
  Attempt attempt_{1};
  Sequence sequence_;
  wire::FrameReader reader_;
  std::deque<wire::Frame> frames_;
};

// A job that runs /bin/sh -c SCRIPT.
wire::JobSpec shell_job(const std::string& script, const std::string& log_directory);

// Whether `condition` becomes true within `limit`. The limit is only for the slowest machine.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(30));

// Whether the process exists and is not a zombie.
bool is_running(pid_t pid);
// The pids of processes with NAME=value in their environment.
std::vector<pid_t> processes_with(const std::string& entry);

}  // namespace muster
