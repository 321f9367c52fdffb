// The file of a job's journal (core/journal/journal.h). The thread that writes the log files also writes this
// file. Only the user who owns the file may read it.
//
// The plan and the events are encoded after a short delay, so that a start or restart does not have to wait.
// When the file is long, it is renamed to journal.old, and a new file begins with the state of the core. If
// the disk is full or hangs, this class warns once and ends the journal. The job goes on. Use this class on
// the thread of the log writer's executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/net/asio.h"
#include "common/net/log_writer.h"
#include "launcher/core/controller.h"

namespace muster::launcher {

class JournalFile {
 public:
  static constexpr Duration kDelay = std::chrono::milliseconds(10);
  static constexpr std::size_t kLongBytes = std::size_t{64} << 20;
  static constexpr std::size_t kQueueBytes = std::size_t{8} << 20;
  // Called once, with a line for the user.
  using Warn = std::function<void(const std::string& what)>;

  struct About {
    const Plan& plan;     // outlives the file
    std::string version;  // of this program
  };
  JournalFile(const asio::any_io_executor& executor, net::LogWriter& writer, const About& job, Warn warn,
              std::size_t long_bytes = kLongBytes);
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;
  ~JournalFile() { *ended_ = true; }
  // `self` has just seen the event.
  void add(const Controller& self, const Event& event, TimePoint at, const Decisions& decisions);
  // Writes the entries that were added.
  void flush();

 private:
  struct Entry {
    Event event;
    TimePoint at;
    Decisions decisions;
  };
  void begin();
  void put_head();
  void put(const std::string& bytes);

  net::LogWriter& writer_;
  std::string path_;
  About job_;
  Warn warn_;
  std::size_t long_bytes_;
  // True when the journal has ended, and when this object has been destroyed. An expired timer may still read
  // this value after the object is gone, and so may the writer if a disk hangs. So all of them share the
  // value.
  std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
  std::shared_ptr<net::LogWriter::File> file_;
  std::size_t bytes_ = 0;       // of the file
  std::vector<Entry> entries_;  // added, but not in the file yet
  asio::steady_timer flush_;
};

}  // namespace muster::launcher
