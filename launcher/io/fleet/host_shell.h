// One command elsewhere, whose stdin and stdout are one socket here: on a host, run by a local child process
// such as ssh (core/fleet/host_script.h), or the first process of a container (container_shell.h).
//
// What it writes to stderr goes to a file; the last line tells why one failed. Shared with the tasks that
// wait for it; one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/asio.h"
#include "common/net/connection.h"

namespace muster::launcher {

class HostShell {
 public:
  HostShell(const HostShell&) = delete;
  HostShell& operator=(const HostShell&) = delete;
  virtual ~HostShell() = default;

  // The next line of stdout, without its newline. kTimedOut at `deadline`, kUnavailable at the end, kCorrupt
  // when more than 64 KiB have come in all. Nothing behind the line is read.
  awaitable<Expected<std::string>> read_line(TimePoint deadline);
  // kTimedOut when nothing is taken for the time of `stall`.
  awaitable<Status> write(std::string_view bytes, Duration stall);
  void end_input();
  // stdin and stdout, for frames; read_line(), write() and end_input() are over.
  net::Socket take_socket() { return std::move(socket_); }
  // Its exit code, or 128 and the signal's number. At `deadline` kTimedOut.
  virtual awaitable<Expected<int>> ended(TimePoint deadline = TimePoint::max()) = 0;
  virtual void terminate() = 0;  // by SIGTERM, or a container by SIGKILL
  // Of what was written to stderr since the start.
  virtual std::string last_error_line() const;
  // It has ended, killed by the kernel for want of memory, as far as that is told here.
  virtual bool out_of_memory() const { return false; }

 protected:
  // What a shell talks by.
  struct Streams {
    net::Socket ours;
    UniqueFd theirs;    // the other end
    UniqueFd messages;  // the file of stderr
    std::string errors;
    std::uint64_t errors_from = 0;  // bytes of the file that are older
  };
  // `errors`: a file, made if need be and appended to.
  static Expected<Streams> open_streams(const asio::any_io_executor& executor, const std::string& errors);
  explicit HostShell(Streams& streams)
      : socket_(std::move(streams.ours)),
        errors_(std::move(streams.errors)),
        errors_from_(streams.errors_from) {}

 private:
  net::Socket socket_;
  std::string errors_;
  std::uint64_t errors_from_ = 0;
  std::string line_;            // what of the next one has come
  std::size_t read_bytes_ = 0;  // by read_line()
};

// By a local child process.
class ChildShell final : public HostShell {
 public:
  static Expected<std::shared_ptr<HostShell>> start(const asio::any_io_executor& executor,
                                                    std::vector<std::string> words, const std::string& errors,
                                                    const rlimit& descriptors);
  // Kills what still runs, with all that it has started in its process group.
  ~ChildShell() override;

  awaitable<Expected<int>> ended(TimePoint deadline) override;
  void terminate() override;  // all of its process group, while it has not ended

 private:
  ChildShell(Streams& streams, pid_t pid, asio::posix::stream_descriptor end)
      : HostShell(streams), end_(std::move(end)), pid_(pid) {}
  void signal(int number);

  asio::posix::stream_descriptor end_;  // a pidfd
  pid_t pid_ = 0;
  std::optional<int> ended_;
};

}  // namespace muster::launcher
