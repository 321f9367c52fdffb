// The interface to the logs of attempts: each rank's log files, the copies for the terminal, and a worker's
// last output. Tests replace it.
//
// The implementation sends the workers' output, and remarks about disks, to the launcher through Link. No
// function blocks. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/node/node.h"
#include "agent/core/output/log_place.h"
#include "common/base/error.h"

namespace muster::agent {

// How much output is missing in the log files of a past attempt.
struct LogLosses {
  std::uint64_t lines = 0;          // lines that were dropped because a file was too slow
  std::uint64_t waiting_bytes = 0;  // bytes that are queued, and may still be written
};

class LogsListener {
 public:
  virtual ~LogsListener() = default;
  // Answers Logs::finish(). It says that the files are complete, or that they cannot be completed. If close()
  // is called first, this call does not come.
  virtual void logs_finished(const LogLosses& losses) = 0;
  // Called when the launcher has all log files. The call comes only if Logs::sent() has returned false
  // before.
  virtual void logs_sent() = 0;
};

class Logs {
 public:
  // The traces that a worker has left when it ended.
  struct LastWords {
    std::string error_file;               // the content of TORCHELASTIC_ERROR_FILE; may be empty
    std::vector<std::string> last_lines;  // of stderr, or of stdout when stderr is empty
  };

  virtual ~Logs() = default;
  // Called once, before anything else.
  virtual void begin(LogsListener& listener) = 0;
  // Returns the place where `job` keeps its logs on this host. Usually this is the job's log directory. It is
  // another one if the launcher is on another host and the job's directory cannot be used here. If the
  // launcher does not see the directory, the log files are sent to the launcher. If the directory cannot be
  // used, open() reports the error.
  virtual LogPlace place_for(const wire::JobSpec& job) = 0;
  // Makes the directories for the attempt's logs, before the workers start. Returns a remark for the user for
  // each disk that is nearly full. An error names the directory. In either case close() is called later.
  virtual Expected<std::vector<std::string>> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  // Call this when the worker has ended. First passes on all of the worker's output. If the worker failed,
  // also reads the worker's error file. It does not do so otherwise, because reading may block if the log
  // disk hangs.
  virtual LastWords last_words(LocalRank local_rank, bool failed) = 0;
  // Writes a report of metrics to a file, if the job is a trial of a sweep. The sweep reads this file if the
  // report has not reached the sweep's controller.
  virtual void keep_metrics(LocalRank, const wire::WorkerReported&) {}
  // Returns whether a rank has to wait until the launcher or a log file takes its output. Also returns true
  // if a rank had to wait a moment ago.
  virtual bool output_waits() const = 0;
  // Call this when the workers are being stopped, or when the launcher is gone. From then on they wait for
  // slow files only briefly. This also applies to the files that are still being written after finish().
  virtual void hurry() = 0;
  // Ends the attempt's output. logs_finished() is called later, never within this call.
  virtual void finish() = 0;
  // Call this when the launcher has told how much of a log file it has.
  virtual void taken(Attempt attempt, const wire::LogTaken& taken) = 0;
  // Returns whether the launcher has all log files of past attempts. If it does not, logs_sent() is called
  // later.
  virtual bool sent() = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
