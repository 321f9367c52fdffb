#include "tests/process/launch_run.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/invariants.h"
#include "tests/process/agent_test_launcher.h"

namespace muster {

namespace {

std::vector<std::string> environment_of(const std::map<std::string, std::string>& added,
                                        const std::string& mark, const std::string& state) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const auto is = [&](const char* prefix) { return text.starts_with(prefix); };
    if (added.contains(text.substr(0, text.find('=')))) continue;
    if (!is("MUSTER_") && !is("PET_") && !is("SLURM_") && !is("XDG_STATE_HOME=") && !is("OMP_NUM_THREADS="))
      entries.push_back(text);
  }
  entries.push_back(mark);
  entries.push_back("XDG_STATE_HOME=" + state);
  for (const auto& [name, value] : added) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

LaunchRun::LaunchRun(const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment, const std::string& program,
                     const std::function<pid_t(const std::string&)>& start) {
  static std::atomic<int> count = 0;
  mark_ = fmt::format("LAUNCH_RUN_MARK={}-{}", getpid(), ++count);
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> entries = environment_of(environment, mark_, scratch_ / "state");
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(entries);
  const std::string out = scratch_ / "out";
  const std::string err = scratch_ / "err";
  pid_ = start ? start(scratch_.path()) : fork();
  if (pid_ != 0) return;
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644), STDERR_FILENO);
  execve(program.c_str(), argv.data(), envp.data());
  _exit(99);
}

LaunchRun::~LaunchRun() {
  if (!exit_code_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const pid_t left : descendants()) kill(left, SIGKILL);
}

void LaunchRun::signal(int number) const {
  kill(pid_, number);
}

int LaunchRun::exit_code() {
  const auto ended = [this] {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
    exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
  };
  if (!exit_code_ && !eventually(ended, std::chrono::seconds(150))) {
    ADD_FAILURE() << "launch does not end\n" << err();
    return -1;
  }
  return *exit_code_;
}

std::string LaunchRun::out() const {
  return read_file(scratch_ / "out", 1 << 26).value_or("");
}
std::string LaunchRun::err() const {
  return read_file(scratch_ / "err", 1 << 26).value_or("");
}

bool LaunchRun::printed(const std::string& text) const {
  return eventually(
      [&] { return out().find(text) != std::string::npos || err().find(text) != std::string::npos; });
}

std::string LaunchRun::job_directory() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path() / "state" / "muster", error))
    return entry.path();
  return "";
}

nlohmann::json LaunchRun::report() const {
  const auto text = read_file(job_directory() + "/report.json", 1 << 26);
  if (!text) {
    ADD_FAILURE() << text.error().message();
    return nlohmann::json::object();
  }
  return nlohmann::json::parse(*text);
}

std::vector<pid_t> LaunchRun::descendants() const {
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with(mark_)) {
    if (pid != pid_) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> LaunchRun::agents() const {
  std::vector<pid_t> found;
  for (const pid_t pid : descendants()) {
    if (read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("") == "muster-agent\n") found.push_back(pid);
  }
  return found;
}

pid_t LaunchRun::agent_of(int node) const {
  for (const pid_t pid : agents()) {
    const std::string words = read_file(fmt::format("/proc/{}/cmdline", pid), 1 << 16).value_or("");
    if (words.find(std::string("--node\0", 7) + std::to_string(node) + '\0') != std::string::npos) return pid;
  }
  return 0;
}

AnsweredRun answered_on_terminal(const std::string& words, const std::string& answer,
                                 const std::map<std::string, std::string>& environment,
                                 const std::function<void()>& meanwhile) {
  const ScratchDirectory scratch;
  const std::string keys = scratch / "keys";
  EXPECT_EQ(mkfifo(keys.c_str(), 0600), 0);
  const UniqueFd keyboard(open(keys.c_str(), O_RDWR | O_CLOEXEC));
  const std::string line =
      fmt::format("exec script -qec '" LAUNCH_PROGRAM " {}' /dev/null < {}", words, keys);
  LaunchRun run({"-c", line}, environment, "/bin/sh");
  EXPECT_TRUE(run.printed("[y/N] ")) << run.out() << run.err();
  if (meanwhile) meanwhile();
  EXPECT_TRUE(write_all(keyboard.get(), answer + "\n", keys));
  const int exit_code = run.exit_code();
  return {exit_code, run.out()};
}

void expect_nothing_left(const LaunchRun& run, std::chrono::seconds limit) {
  eventually([&] { return run.descendants().empty(); }, limit);
  invariants::nothing_is_left(static_cast<int>(run.descendants().size()));
}

}  // namespace muster
