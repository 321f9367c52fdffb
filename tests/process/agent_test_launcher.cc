#include "tests/process/agent_test_launcher.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace muster {

namespace {

constexpr Duration kLimit = std::chrono::seconds(30);

}  // namespace

TestLauncher::TestLauncher(Options options) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  socket_.reset(ends[0]);
  agent_ = fork();
  CHECK(agent_ >= 0, "fork");
  if (agent_ == 0) {
    setsid();
    for (const std::string& entry : options.environment) putenv(strdup(entry.c_str()));
    if (!options.error_file.empty()) {
      dup2(open(options.error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644), STDERR_FILENO);
    }
    if (options.in_child) options.in_child();
    std::vector<std::string> words = {AGENT_PROGRAM, "--node", "0"};
    if (options.stdio) {
      dup2(ends[1], STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      words.insert(words.end(), options.arguments.begin(), options.arguments.end());
    } else {
      words.insert(words.end(), {"--control-fd", std::to_string(ends[1])});
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(AGENT_PROGRAM, argv.data());
    _exit(127);
  }
  close(ends[1]);
  if (options.stdio) read_preamble();
  EXPECT_TRUE(wait_for<wire::Hello>());
}

// Reads byte by byte, because frames follow.
void TestLauncher::read_preamble() {
  send_bytes(std::string(64, 'a') + "\n");
  while (preamble.empty() || !preamble.back().starts_with("control ")) {
    std::string line;
    char byte = 0;
    while (read(socket_.get(), &byte, 1) == 1 && byte != '\n') line += byte;
    if (line.empty()) break;
    preamble.push_back(line);
  }
}

TestLauncher::~TestLauncher() {
  if (reaped_) return;
  kill(agent_, SIGKILL);
  waitpid(agent_, nullptr, 0);
}

void TestLauncher::send(const wire::ToAgent& message) {
  sequence_ = sequence_.next();
  send_bytes(wire::encode({{}, NodeId(0), wire::kLauncher, Term(1), attempt_, sequence_}, message));
}

void TestLauncher::send_bytes(const std::string& bytes) {
  EXPECT_TRUE(write_all(socket_.get(), bytes, "the agent's socket"));
}

void TestLauncher::prepare(std::int32_t count) {
  wire::PrepareAttempt plan;
  plan.node_count = 1;
  plan.world_size = count;
  plan.local_world_size = count;
  send(plan);
}

std::vector<std::int32_t> TestLauncher::start(std::int32_t count) {
  prepare(count);
  if (!wait_for<wire::AttemptPrepared>()) return {};
  send(wire::StartWorkers{"127.0.0.1", 29500, std::nullopt});
  const auto started = wait_for<wire::WorkersStarted>();
  return started ? started->pids : std::vector<std::int32_t>();
}

std::optional<wire::ToLauncher> TestLauncher::next() {
  const TimePoint deadline = Clock::now() + kLimit;
  while (frames_.empty()) {
    pollfd ready{socket_.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    char buffer[64 << 10];
    ssize_t size = -1;
    if (left > 0 && poll(&ready, 1, static_cast<int>(left)) > 0)
      size = read(socket_.get(), buffer, sizeof buffer);
    if (size <= 0) {
      ADD_FAILURE() << (left <= 0 ? "the agent did not answer in time" : "the agent closed the connection");
      return std::nullopt;
    }
    std::vector<wire::Frame> frames;
    EXPECT_TRUE(reader_.feed({buffer, static_cast<std::size_t>(size)}, frames));
    for (wire::Frame& frame : frames) frames_.push_back(std::move(frame));
  }
  auto message = wire::decode_for_launcher(frames_.front());
  frames_.pop_front();
  EXPECT_TRUE(message);
  return message ? std::optional(*message) : std::nullopt;
}

std::string TestLauncher::output(std::int32_t rank, std::int32_t stream) const {
  std::string text;
  for (const auto& output : all<wire::Output>()) {
    if (output.rank == Rank(rank) && output.stream == stream) text.append(output.text.view());
  }
  return text;
}

int TestLauncher::agent_exit() {
  int status = 0;
  reaped_ = eventually([this, &status] { return waitpid(agent_, &status, WNOHANG) == agent_; });
  EXPECT_TRUE(reaped_) << "the agent still runs";
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

wire::JobSpec shell_job(const std::string& script, const std::string& log_directory) {
  wire::JobSpec job;
  job.job_id = "test-" + std::filesystem::path(log_directory).parent_path().filename().string();
  job.command = {"sh", "-c", script};
  job.working_directory = "/";
  job.log_directory = log_directory;
  job.limits.grace = std::chrono::seconds(2);
  job.limits.controller_grace = std::chrono::seconds(1);
  job.limits.silence_limit = std::chrono::seconds(100);  // this launcher sends no pings
  return job;
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

bool is_running(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  return stat && (*stat)[stat->rfind(')') + 2] != 'Z';
}

std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const std::string name = process.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto environment = read_file(process.path().string() + "/environ", 16 << 20);
    if (environment && (std::string(1, '\0') + *environment).find('\0' + entry + '\0') != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

}  // namespace muster
