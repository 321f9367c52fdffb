// One command on a host, run through a host shell (core/fleet/host_script.h): a local child process such as
// ssh, whose stdin and stdout are one socket.
//
// What the shell and the command write to stderr goes to a file; the last line tells why one failed. Shared
// with the tasks that wait for it; one thread.
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
  // `errors`: a file, made if need be and appended to.
  static Expected<std::shared_ptr<HostShell>> start(const asio::any_io_executor& executor,
                                                    std::vector<std::string> words, const std::string& errors,
                                                    const rlimit& descriptors);
  HostShell(const HostShell&) = delete;
  HostShell& operator=(const HostShell&) = delete;
  // Kills what still runs, with all that it has started in its process group.
  ~HostShell();

  // The next line of stdout, without its newline. kTimedOut at `deadline`, kUnavailable at the end, kCorrupt
  // when more than 64 KiB have come in all. Nothing behind the line is read.
  awaitable<Expected<std::string>> read_line(TimePoint deadline);
  // kTimedOut when nothing is taken for the time of `stall`.
  awaitable<Status> write(std::string_view bytes, Duration stall);
  void end_input();
  // stdin and stdout, for frames; read_line(), write() and end_input() are over.
  net::Socket take_socket() { return std::move(socket_); }
  // Its exit code, or 128 and the signal's number. At `deadline` kTimedOut.
  awaitable<Expected<int>> ended(TimePoint deadline = TimePoint::max());
  bool has_ended() const { return ended_.has_value(); }
  // To all of its process group, while it has not ended.
  void terminate();  // SIGTERM
  void kill();       // SIGKILL
  // Of what was written to stderr since the start.
  std::string last_error_line() const;

 private:
  HostShell(const asio::any_io_executor& executor, net::Socket socket)
      : socket_(std::move(socket)), end_(executor) {}
  void signal(int number);

  net::Socket socket_;
  asio::posix::stream_descriptor end_;  // a pidfd
  pid_t pid_ = 0;
  std::optional<int> ended_;
  std::string errors_;
  std::uint64_t errors_from_ = 0;
  std::string line_;            // what of the next one has come
  std::size_t read_bytes_ = 0;  // by read_line()
};

}  // namespace muster::launcher
