// Tells how one worker ended, from what its agent saw, the worker's error file, and its last lines. The ends
// of other workers do not matter here. Pure.
//
// If several workers have ended, verdict.h decides which end is the cause.
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
  bool after_stop = false;  // it ended after the workers had been told to stop
  bool by_stop = false;     // after_stop, and it ended in a way that a stop explains
  std::string message;      // from its error file
  bool final = false;       // its error file says that another attempt would fail, too
  bool told = false;        // its error file says that another rank has the same error, and prints it
  std::string exception{};  // one line, or "": "RuntimeError: bad sample 17 (train.py:6)"
  std::string cause{};  // from its error file: the exception's text, without what the runtime adds; often ""
  std::vector<std::string> last_lines;
  std::int64_t oom_kill_count = 0;
  std::int64_t memory_limit_bytes = 0;
  std::int64_t peak_memory_bytes = 0;
  bool core_dumped = false;
  bool ran_last_line = false;  // it had run the last line of its Python script
  std::string gpu_fault;
  std::string mpi_fault{};  // "called MPI_Abort with 3"

  bool failed() const { return exit_code != 0 || signal != 0 || !mpi_fault.empty(); }
  // Returns whether the kernel killed the worker because memory ran out. The counter of the worker's cgroup
  // says this.
  bool out_of_memory() const;
  std::string text() const;  // message and last lines, to search for patterns
  // Returns whether a signal killed the worker after its script had run to the last line, while Python was
  // shutting down. Such a worker had done its work.
  bool died_at_exit() const { return ran_last_line && signal != 0; }
  // Returns whether the text of the rank says that it failed because another rank did.
  bool is_about_another() const;
};

// Returns how the worker ended. `killing` says that the job has sent SIGKILL to the workers, or may have sent
// it.
WorkerEnd worker_end(NodeId node, const wire::WorkerExited& exited, bool killing);

// Returns the exit code of the launcher if a worker ended in this way. This is the worker's own code, or 128
// + signal. If the worker's code is reserved for a verdict of the launcher, it is 1.
int exit_code_for(const WorkerEnd& end);
// Returns 128 + signal, as a shell does. If the number is not a signal, it is cut to seven bits.
constexpr int exit_code_of_signal(int signal) {
  return 128 + (signal & 0x7f);
}
// Returns a text such as "exited with code 3", "was killed by SIGKILL" or "failed with RuntimeError: bad
// sample 17 (train.py:6)".
std::string end_text(const WorkerEnd& end);
// Evidence for the cause, one fact per line.
std::vector<std::string> evidence_of(const WorkerEnd& end);
// The contents of an error file that torchrun writes. A missing field is "".
struct ErrorFile {
  std::string message;
  std::string callstack;
  bool final = false;  // another attempt would fail, too
  bool told = false;   // another rank has the same error, and prints it
  std::string cause;   // the exception's text, without what the runtime adds; "" if missing
};
ErrorFile read_error_file(std::string_view json_text);

}  // namespace muster::launcher
