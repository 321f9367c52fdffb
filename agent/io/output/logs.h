// The seam to the places of an attempt's output: each rank's log files, the copy for the terminal, and what
// is read from them when a worker has ended.
//
// The implementation sends the workers' output, and remarks about disks, to the launcher through Link.
// Nothing here waits. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/node/node.h"
#include "agent/core/output/log_place.h"
#include "common/base/error.h"

namespace muster::agent {

// Output of a past attempt that its log files lack.
struct LogLosses {
  std::uint64_t lines = 0;          // dropped, because a file was too slow
  std::uint64_t waiting_bytes = 0;  // queued, may still be written
};

class LogsListener {
 public:
  virtual ~LogsListener() = default;
  // Answers Logs::finish(), unless close() came first: the files are complete, or cannot be completed.
  virtual void logs_finished(const LogLosses& losses) = 0;
  // The launcher now has all log files, after Logs::sent() had returned false.
  virtual void logs_sent() = 0;
};

class Logs {
 public:
  // The files and lines that a worker left when it ended.
  struct LastWords {
    std::string error_file;               // the content of TORCHELASTIC_ERROR_FILE, may be empty
    std::vector<std::string> last_lines;  // of stderr, or of stdout when stderr is empty
  };

  virtual ~Logs() = default;
  // Called once, before anything else.
  virtual void begin(LogsListener& listener) = 0;
  // Returns where `job` keeps its logs on this host: in the job's log directory or, if that cannot be made
  // here and the launcher is on another host, in another directory. open() finds out whether the directory
  // can be used. Log files that are not in the launcher's directory are sent to the launcher.
  virtual LogPlace place_for(const wire::JobSpec& job) = 0;
  // Makes the directories of the attempt's logs, before its workers start. Returns remarks for the user, one
  // for each disk that is nearly full. Errors name the directory. close() follows in any case.
  virtual Expected<std::vector<std::string>> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  // Call when the worker has ended. First passes on all of the worker's output. Reads its error file only if
  // the worker failed, because the log disk may hang.
  virtual LastWords last_words(LocalRank local_rank, bool failed) = 0;
  // For a trial of a sweep: keeps a report of metrics, which the sweep reads if its controller did not hear it.
  virtual void keep_metrics(LocalRank, const wire::WorkerReported&) {}
  // Whether some rank waits for the launcher or a log file, or did a moment ago.
  virtual bool output_waits() const = 0;
  // The workers are being stopped, or the launcher is gone: wait only a moment for files, now and in
  // finish().
  virtual void hurry() = 0;
  // Accepts no more output; logs_finished() follows later, not inside this call.
  virtual void finish() = 0;
  // The launcher has received that much of a log file.
  virtual void taken(Attempt attempt, const wire::LogTaken& taken) = 0;
  // Whether the launcher has all log files of past attempts.
  virtual bool sent() = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
