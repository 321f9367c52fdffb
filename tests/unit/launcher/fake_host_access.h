// HostAccess and HostShell without hosts, processes or containers: the test is the command behind each shell.
//
// FakeHostAccess records what the bootstrap asks for, and answers as its fields say. The test writes a
// shell's stdout to a socket, and ends the command with an exit code. Time is the system's clock.
// One thread.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "launcher/io/fleet/host_access.h"
#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

class FakeHostShell final : public HostShell {
 public:
  static std::shared_ptr<FakeHostShell> open(const asio::any_io_executor& executor) {
    auto streams = open_streams(executor, "/dev/null");
    CHECK(streams, "{}", streams.error().message());
    return std::shared_ptr<FakeHostShell>(new FakeHostShell(*streams, executor));
  }

  // The command prints a line on its stdout.
  void print(const std::string& line) { send(line + "\n"); }
  // The command writes to its stdout.
  void send(const std::string& text) {
    EXPECT_EQ(::send(theirs_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Everything that the command has got on its stdin so far.
  const std::string& input() {
    char bytes[4096];
    ssize_t got = 0;
    while (theirs_ && (got = ::recv(theirs_.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
      input_.append(bytes, static_cast<std::size_t>(got));
    input_ended_ = input_ended_ || got == 0;
    return input_;
  }
  bool input_ended() {
    input();
    return input_ended_;
  }
  // The command ends; `last_line` is the last line of its stderr.
  void end(int code, std::string last_line = "") {
    if (code_) return;
    input();
    code_ = code;
    last_line_ = std::move(last_line);
    theirs_.reset();
    over_.cancel();
  }
  // The kernel has killed the command for lack of memory.
  void run_out_of_memory() {
    out_of_memory_ = true;
    end(137);
  }
  // A command that ignores terminate().
  void be_stubborn() { stubborn_ = true; }
  bool terminated() const { return terminated_; }

  awaitable<Expected<int>> ended(TimePoint deadline = TimePoint::max()) override {
    while (!code_) {
      if (Clock::now() >= deadline) co_return failure(ErrorCode::kTimedOut, "it is still running");
      boost::system::error_code ignored;
      const WaitLimit wait(over_, deadline);
      co_await over_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return *code_;
  }
  void terminate() override {
    terminated_ = true;
    if (!stubborn_) end(143);
  }
  std::string last_error_line() const override { return last_line_; }
  bool out_of_memory() const override { return out_of_memory_; }

 private:
  FakeHostShell(Streams& streams, const asio::any_io_executor& executor)
      : HostShell(streams), theirs_(std::move(streams.theirs)), over_(executor, TimePoint::max()) {}

  UniqueFd theirs_;
  asio::steady_timer over_;  // cancelled when the command has ended
  std::optional<int> code_;
  std::string last_line_;
  std::string input_;
  bool input_ended_ = false;
  bool out_of_memory_ = false;
  bool stubborn_ = false;
  bool terminated_ = false;
};

class FakeHostAccess final : public HostAccess {
 public:
  explicit FakeHostAccess(const asio::any_io_executor& executor)
      : executor_(executor), held_(executor, TimePoint::max()) {}

  // ---- What the bootstrap has asked for ----
  struct Started {
    AgentId agent;
    Words arguments;
    std::shared_ptr<FakeHostShell> shell;
  };
  struct Brought {
    NodeId node;
    HostStart::Missing missing;
    std::shared_ptr<FakeHostShell> shell;
  };
  struct Swept {
    AgentId below;
    bool kill = false;
    bool operator==(const Swept&) const = default;
  };
  int prepare_count = 0;
  std::vector<Started> starts;
  std::vector<Brought> errands;
  std::vector<AgentId> kills;
  std::vector<Swept> sweeps;
  bool finished = false;

  // ---- Its answers ----
  Status prepared;
  std::optional<Error> refusal;  // of start_agent()
  std::string delivery = "the agent's files";
  Duration delivery_limit = std::chrono::minutes(1);
  bool answers_kill = true;
  std::optional<std::vector<Leftover>> left{std::in_place};  // nothing: the host does not answer

  // prepare(), start_agent() and kill_agent() do not return between hold() and release().
  void hold() { holds_ = true; }
  void release() {
    holds_ = false;
    held_.cancel();
  }

  std::string name() const override { return "ssh"; }
  awaitable<Status> prepare() override {
    ++prepare_count;
    co_await pass();
    co_return prepared;
  }
  std::string place(NodeId node) const override { return fmt::format("{}", node); }
  void adopt(AgentId, const std::shared_ptr<HostShell>&) override {}
  awaitable<Shell> start_agent(AgentId agent, Words arguments) override {
    auto shell = FakeHostShell::open(executor_);
    starts.push_back({agent, std::move(arguments), shell});
    co_await pass();
    if (refusal) co_return std::unexpected(*refusal);
    co_return shell;
  }
  awaitable<Expected<Errand>> bring(NodeId node, HostStart::Missing missing) override {
    auto shell = FakeHostShell::open(executor_);
    errands.push_back({node, missing, shell});
    co_return Errand{shell, std::make_shared<const std::string>(delivery), delivery_limit,
                     "cannot copy the agent there"};
  }
  awaitable<bool> kill_agent(AgentId agent, AgentGreeting) override {
    kills.push_back(agent);
    co_await pass();
    co_return answers_kill;
  }
  awaitable<std::optional<std::vector<Leftover>>> sweep(AgentId below, bool kill) override {
    sweeps.push_back({below, kill});
    co_return left;
  }
  awaitable<void> watch() override { co_return; }
  awaitable<void> finish() override {
    finished = true;
    co_return;
  }

 private:
  awaitable<void> pass() {
    boost::system::error_code ignored;
    while (holds_) co_await held_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  asio::any_io_executor executor_;
  asio::steady_timer held_;  // cancelled by release()
  bool holds_ = false;
};

}  // namespace muster::launcher
