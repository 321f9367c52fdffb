// One command that runs elsewhere. Its stdin and stdout are one socket here. The command may be on a host,
// where a local child process such as ssh runs it (core/fleet/host_script.h). Or it is the first process of a
// container (container_shell.h).
//
// The command's stderr goes to a file. If the command fails, the last line of the file says why. The tasks
// that wait for the command share this object; one thread.
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

  // Returns the next line of stdout, without its newline. Reads nothing after that line. Returns kTimedOut at
  // `deadline`, and kUnavailable at the end of stdout. Returns kCorrupt if all lines together have more than
  // 64 KiB.
  awaitable<Expected<std::string>> read_line(TimePoint deadline);
  // Writes to stdin. If the command reads nothing for `stall`, returns kTimedOut.
  awaitable<Status> write(std::string_view bytes, Duration stall);
  void end_input();
  // Returns the socket of stdin and stdout, over which frames can be sent. After that, do not call
  // read_line(), write() or end_input().
  net::Socket take_socket() { return std::move(socket_); }
  // Waits until the command ends. Returns its exit code. If a signal ended it, returns 128 plus the signal's
  // number. If it still runs at `deadline`, returns kTimedOut.
  virtual awaitable<Expected<int>> ended(TimePoint deadline = TimePoint::max()) = 0;
  virtual void terminate() = 0;  // sends SIGTERM; to a container SIGKILL
  // Call when the command begins to serve a new job. The file that gets the command's stderr then has a
  // second name, `errors`. The file still has what the command wrote in earlier jobs. If `errors` already
  // exists, or is on another file system, the file gets no second name.
  void link_errors(const std::string& errors);
  // Returns the last line that the command has written to stderr since it started.
  virtual std::string last_error_line() const;
  // Returns whether the command has ended because the kernel killed it for lack of memory. If this is not
  // known, returns false.
  virtual bool out_of_memory() const { return false; }

 protected:
  // The two ends of the socket, and the file that stderr goes to.
  struct Streams {
    net::Socket ours;
    UniqueFd theirs;    // the command's end
    UniqueFd messages;  // the file of stderr
    std::string errors;
    std::uint64_t errors_from = 0;  // the file's size before this command
  };
  // `errors` is the path of the file that stderr goes to. The file is created if it does not exist. Text is
  // appended to it.
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
  // If the child still runs, kills it with its process group.
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
