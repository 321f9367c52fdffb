// How one worker ended: what its agent saw and what it left, and what that means by itself. Pure.
//
// Which of several ends is the cause is decided in verdict.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace muster::launcher {

struct WorkerEnd {
  Rank rank;
  NodeId node;
  std::int32_t exit_code = 0;  // if signal is 0
  std::int32_t signal = 0;
  TimePoint at;
  bool after_stop = false;  // the workers had been told to stop
  bool by_stop = false;     // after_stop, and it ended as the stop makes workers end
  std::string message;      // of its error file
  bool final = false;       // its error file says that another attempt would fail alike
  bool told = false;        // its error file says that another rank has this error too, and prints it
  std::string exception{};  // one line, or "": "RuntimeError: bad sample 17 (train.py:6)"
  std::string cause{};      // of its error file: what code threw, without what the runtime adds; often ""
  std::vector<std::string> last_lines;
  std::int64_t oom_kill_count = 0;
  std::int64_t memory_limit_bytes = 0;
  std::int64_t peak_memory_bytes = 0;
  bool core_dumped = false;
  std::string gpu_fault;
  std::string mpi_fault{};  // "called MPI_Abort with 3"

  bool failed() const { return exit_code != 0 || signal != 0 || !mpi_fault.empty(); }
  // The kernel killed it for want of memory: the counter of its cgroup says so.
  bool out_of_memory() const;
  std::string text() const;  // all that it said, to look for patterns in
  // Whether it complains of another rank: by its own words it failed because that one did.
  bool is_about_another() const;
};

// `killing`: the workers have had, or may have had, SIGKILL from us.
WorkerEnd worker_end(NodeId node, const wire::WorkerExited& exited, bool killing);

// The exit code that the launcher gives for a worker's end: its own, 128 + signal, or 1 where its own means a
// verdict of the launcher.
int exit_code_for(const WorkerEnd& end);
// As a shell gives it: 128 + signal. A number that is no signal is cut to seven bits.
constexpr int exit_code_of_signal(int signal) {
  return 128 + (signal & 0x7f);
}
// "exited with code 3", "was killed by SIGKILL", "failed with RuntimeError: bad sample 17 (train.py:6)"
std::string end_text(const WorkerEnd& end);
// What speaks for the cause, a line each.
std::vector<std::string> evidence_of(const WorkerEnd& end);
// What a torchrun error file says; "" where it says nothing.
struct ErrorFile {
  std::string message;
  std::string callstack;
  bool final = false;  // another attempt would fail alike
  bool told = false;   // by another rank that has this error too
  std::string cause;   // what code threw, without what the runtime adds; "" if the file does not say
};
ErrorFile read_error_file(std::string_view json_text);

}  // namespace muster::launcher
