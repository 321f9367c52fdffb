// The seam to where an attempt's output goes: each rank's log files, the terminal's copy, and what is read
// from them when a worker has ended.
//
// The workers' output reaches the launcher through Link, which the implementation knows; so does what is
// wrong with a disk. Nothing here waits. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/node/node.h"
#include "agent/core/output/log_place.h"
#include "common/base/error.h"

namespace muster::agent {

// Output of an attempt that is over, as far as its log files lack it.
struct LogLosses {
  std::uint64_t lines = 0;          // dropped, because a file did not take them in time
  std::uint64_t waiting_bytes = 0;  // queued, and perhaps written later
};

class LogsListener {
 public:
  virtual ~LogsListener() = default;
  // Answers Logs::finish(), unless close() came first: the files are complete, or cannot be made so.
  virtual void logs_finished(const LogLosses& losses) = 0;
  // The launcher has all of the log files, when Logs::sent() had said that it has not.
  virtual void logs_sent() = 0;
};

class Logs {
 public:
  // What a worker that has ended left.
  struct LastWords {
    std::string error_file;               // the text of TORCHELASTIC_ERROR_FILE; or empty
    std::vector<std::string> last_lines;  // of stderr, or of stdout when stderr is empty
  };

  virtual ~Logs() = default;
  // Once, before anything else.
  virtual void begin(LogsListener& listener) = 0;
  // Where `job` has its logs on this host: its log directory, or another one if that cannot be made here and
  // the launcher is elsewhere. Whether either can be used is open()'s to find out. Log files in a place that
  // is not the launcher's are sent to it.
  virtual LogPlace place_for(const wire::JobSpec& job) = 0;
  // Makes the directories of the attempt's logs, before its workers start. Returns lines for the user, one
  // for each disk that is nearly full. Errors name the directory. close() follows in any case.
  virtual Expected<std::vector<std::string>> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  // Of a worker that has ended; all that it has printed is passed on first.
  virtual LastWords last_words(LocalRank local_rank) = 0;
  // Whether some rank is made to wait, for the launcher or a log file, or was a moment ago.
  virtual bool output_waits() const = 0;
  // The workers are to end, or the launcher is gone: files are waited for only a moment, now and in finish().
  virtual void hurry() = 0;
  // Takes no more output; logs_finished() follows, never inside.
  virtual void finish() = 0;
  // The launcher has so much of a log file that was sent to it.
  virtual void taken(Attempt attempt, const wire::LogTaken& taken) = 0;
  // Whether the launcher has all of the log files of attempts that are over.
  virtual bool sent() = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
