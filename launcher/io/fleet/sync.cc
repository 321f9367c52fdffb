#include "launcher/io/fleet/sync.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "common/base/file.h"
#include "common/net/task_group.h"
#include "launcher/core/fleet/host_script.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/fleet/host_shell.h"
#include "launcher/io/fleet/periodic.h"

namespace muster::launcher {

namespace {

constexpr Duration kProgressPeriod = std::chrono::seconds(2);

class Sync {
 public:
  Sync(const Plan& plan, const BeforeJob& setting)
      : plan_(plan),
        setting_(setting),
        tasks_(context_.get_executor()),
        progress_(context_, kProgressPeriod, [this] { tell_progress(); }),
        stop_(context_, setting_.signals, [this](int number) {
          exit_code_ = 128 + number;
          end();
        }) {
    getrlimit(RLIMIT_NOFILE, &descriptors_);
  }
  Sync(const Sync&) = delete;
  Sync& operator=(const Sync&) = delete;

  int run() {
    const std::size_t at_once =
        std::min(plan_.hosts.size(), static_cast<std::size_t>(plan_.remote.ssh_parallel));
    running_ = at_once;
    for (std::size_t i = 0; i < at_once; ++i) tasks_.spawn(serve_hosts());
    progress_.start();
    context_.run();
    if (exit_code_ == 0 && !failed_.empty()) exit_code_ = kExitNodesMissing;
    return exit_code_;
  }

 private:
  // Copies to one host after the other, until no host is left.
  awaitable<void> serve_hosts() {
    while (next_ < plan_.hosts.size()) {
      const std::size_t node = next_++;
      for (const std::string& directory : plan_.remote.sync) {
        const std::string why = co_await copy(node, directory);
        if (why.empty()) continue;
        setting_.say(why);
        failed_.push_back(plan_.hosts[node].name);
        break;
      }
      ++done_;
    }
    if (--running_ == 0) end();
  }

  // Returns why the copy failed, or an empty text.
  awaitable<std::string> copy(std::size_t node, const std::string& directory) {
    const Host& host = plan_.hosts[node];
    const std::string errors = fmt::format("{}/sync.node{}.log", plan_.job.log_directory, node);
    for (int tries = 1;; ++tries) {
      std::filesystem::remove(errors, ignored_);
      const auto shell = ChildShell::start(context_.get_executor(),
                                           sync_command(plan_.remote, host, directory), errors, descriptors_);
      if (!shell) co_return fmt::format("--sync: {}: install it here", shell.error().message());
      const int code = (co_await (*shell)->ended()).value_or(-1);
      if (code == 0) co_return "";
      constexpr std::uint64_t kMostBytes = 1 << 20;
      const SyncFailure failure =
          sync_failure(host, directory, code, read_file(errors, kMostBytes).value_or(""));
      const auto pause = failure.is_busy
                             ? pause_before_next_try(tries, std::uniform_real_distribution<>()(random_))
                             : std::nullopt;
      if (!pause) co_return failure.text;
      co_await asio::steady_timer(context_, *pause).async_wait(asio::use_awaitable);
    }
  }

  void tell_progress() {
    setting_.say(fmt::format("--sync: {} of {} hosts done", done_, plan_.hosts.size()));
  }

  // When the tasks are cancelled, the rsyncs that are still running are killed, too.
  void end() {
    progress_.stop();
    stop_.cancel();
    tasks_.cancel();
  }

  const Plan& plan_;
  const BeforeJob& setting_;
  asio::io_context context_{1};
  net::TaskGroup tasks_;
  Periodic progress_;
  StopSignal stop_;
  rlimit descriptors_{};
  std::error_code ignored_;
  std::minstd_rand random_{std::random_device()()};
  std::size_t next_ = 0;  // the next host to serve
  std::size_t done_ = 0;
  std::size_t running_ = 0;  // tasks
  std::vector<std::string> failed_;
  int exit_code_ = 0;
};

}  // namespace

int sync_hosts(const Plan& plan, const BeforeJob& setting) {
  for (const std::string& directory : plan.remote.sync) {
    if (std::error_code error; std::filesystem::is_directory(directory, error)) continue;
    setting.say(fmt::format("--sync: {} is not a directory here: give the directory to copy", directory));
    return kExitUsage;
  }
  return Sync(plan, setting).run();
}

}  // namespace muster::launcher
