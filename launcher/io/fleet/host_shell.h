// One command that runs elsewhere, with its stdin and stdout as one socket here: a command on a host, run by
// a local child process such as ssh (core/fleet/host_script.h), or a container's first process
// (container_shell.h).
//
// The command's stderr goes to a file; the file's last line says why a command failed. Shared with the tasks
// that wait for it; one thread.
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

  // Returns the next line of stdout, without its newline, and reads nothing after it. Errors: kTimedOut at
  // `deadline`, kUnavailable at the end of stdout, kCorrupt when all lines together exceed 64 KiB.
  awaitable<Expected<std::string>> read_line(TimePoint deadline);
  // Writes to stdin. Returns kTimedOut when the command has read nothing for `stall`.
  awaitable<Status> write(std::string_view bytes, Duration stall);
  void end_input();
  // stdin and stdout, for frames. Do not call read_line(), write() or end_input() afterwards.
  net::Socket take_socket() { return std::move(socket_); }
  // Waits for the command's end. Returns its exit code, or 128 plus the signal's number; kTimedOut at
  // `deadline`.
  virtual awaitable<Expected<int>> ended(TimePoint deadline = TimePoint::max()) = 0;
  virtual void terminate() = 0;  // sends SIGTERM; to a container SIGKILL
  // Gives the file of stderr another name, `errors`, for a new job. The file still has what the command wrote
  // in earlier jobs. Keeps the old name if `errors` exists, or is on another file system.
  void link_errors(const std::string& errors);
  // The last line that the command has written to stderr since its start.
  virtual std::string last_error_line() const;
  // Whether the command has ended because the kernel killed it for lack of memory. False if unknown.
  virtual bool out_of_memory() const { return false; }

 protected:
  // The ends of the socket, and the file of stderr.
  struct Streams {
    net::Socket ours;
    UniqueFd theirs;    // the command's end
    UniqueFd messages;  // the file of stderr
    std::string errors;
    std::uint64_t errors_from = 0;  // the file's size before this command
  };
  // `errors`: the path of the file of stderr, which is created if needed and appended to.
  static Expected<Streams> open_streams(const asio::any_io_executor& executor, const std::string& errors);
  explicit HostShell(Streams& streams)
      : socket_(std::move(streams.ours)),
        errors_(std::move(streams.errors)),
        errors_from_(streams.errors_from) {}

 private:
  net::Socket socket_;
  std::string errors_;
  std::uint64_t errors_from_ = 0;
  std::string line_;            // the beginning of the next line
  std::size_t read_bytes_ = 0;  // by read_line()
};

// A command that a local child process runs.
class ChildShell final : public HostShell {
 public:
  static Expected<std::shared_ptr<HostShell>> start(const asio::any_io_executor& executor,
                                                    std::vector<std::string> words, const std::string& errors,
                                                    const rlimit& descriptors);
  // Kills the child with its process group, if the child still runs.
  ~ChildShell() override;

  awaitable<Expected<int>> ended(TimePoint deadline) override;
  void terminate() override;  // the child's process group, unless the child has ended

 private:
  ChildShell(Streams& streams, pid_t pid, asio::posix::stream_descriptor end)
      : HostShell(streams), end_(std::move(end)), pid_(pid) {}
  void signal(int number);

  asio::posix::stream_descriptor end_;  // a pidfd
  pid_t pid_ = 0;
  std::optional<int> ended_;
};

}  // namespace muster::launcher
