// The file that keeps a job's journal (core/journal/journal.h): written by the log files' thread, readable by
// its user alone.
//
// A disk that does not take it must not hold up the job: that is said once, and the journal ends there. One
// thread, the writer's executor's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/net/log_writer.h"
#include "launcher/core/controller.h"

namespace muster::launcher {

class JournalFile {
 public:
  static constexpr std::size_t kQueueBytes = std::size_t{8} << 20;
  // What the user should know, once.
  using Warn = std::function<void(const std::string& what)>;

  JournalFile(net::LogWriter& writer, const Plan& plan, Warn warn);
  void add(const Event& event, TimePoint at, const Decisions& decisions);

 private:
  void put(const std::string& bytes);

  Warn warn_;
  std::shared_ptr<net::LogWriter::File> file_;
  bool ended_ = false;
};

}  // namespace muster::launcher
