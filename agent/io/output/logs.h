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
  // Answers Logs::finish(), unless close() came first: the files are complete, or cannot be completed.
  virtual void logs_finished(const LogLosses& losses) = 0;
  // Called after Logs::sent() has returned false, when the launcher has all log files.
  virtual void logs_sent() = 0;
};

class Logs {
 public:
  // The files and lines that a worker left when it ended.
  struct LastWords {
    std::string error_file;               // the content of TORCHELASTIC_ERROR_FILE; may be empty
    std::vector<std::string> last_lines;  // of stderr, or of stdout when stderr is empty
  };

  virtual ~Logs() = default;
  // Called once, before anything else.
  virtual void begin(LogsListener& listener) = 0;
  // Returns where `job` keeps its logs on this host. This is the job's log directory, or another one if the
  // launcher is on another host and the job's directory cannot be used here. If the launcher does not see the
  // directory, its log files are sent to the launcher. open() reports an error if the directory cannot be
  // used.
  virtual LogPlace place_for(const wire::JobSpec& job) = 0;
  // Makes the directories of the attempt's logs, before its workers start. Returns remarks for the user, one
  // for each disk that is nearly full. Errors name the directory. close() follows in any case.
  virtual Expected<std::vector<std::string>> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  // Call when the worker has ended. First passes on all of the worker's output. Reads the worker's error file
  // only if the worker failed, because reading may block if the log disk hangs.
  virtual LastWords last_words(LocalRank local_rank, bool failed) = 0;
  // In a trial of a sweep, writes a report of metrics to a file. The sweep reads the file if the report did
  // not reach its controller.
  virtual void keep_metrics(LocalRank, const wire::WorkerReported&) {}
  // Returns whether a rank waits until the launcher or a log file takes its output, or waited a moment ago.
  virtual bool output_waits() const = 0;
  // Call when the workers are being stopped, or the launcher is gone: from now on, also after finish(), slow
  // files are waited for only briefly.
  virtual void hurry() = 0;
  // Ends the attempt's output. logs_finished() is called later, never within this call.
  virtual void finish() = 0;
  // Call when the launcher has told how much of a log file it has.
  virtual void taken(Attempt attempt, const wire::LogTaken& taken) = 0;
  // Returns whether the launcher has all log files of past attempts. If not, logs_sent() follows.
  virtual bool sent() = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
