// Writes log files on a separate thread. So a blocked file system does not block the thread that logs.
//
// - One thread serves all files. It takes them in the order in which they got something to write. The thread
//   is started by start(), or else by the first put().
// - put() accepts any amount. A caller that must limit memory first checks backlog_bytes() and alive_at().
// - The destructor gives the thread up to a second to write the queued bytes. After that the thread waits for
//   another writer, unless it hangs in the kernel.
// Any thread can call put(). Call all other functions on the executor's thread. The callbacks also run on
// that thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/net/asio.h"
#include "common/net/log_parts.h"

namespace muster::net {

class LogWriter {
 public:
  class File;
  static constexpr Duration kHurryLimit = std::chrono::seconds(2);
  // Called when a file has its first error. `what` describes the error in one clause.
  using Trouble = std::function<void(const std::string& what)>;

  explicit LogWriter(asio::any_io_executor executor);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter();

  // Starts the thread now. If this fails, a later put() tries again.
  Status start();
  // The action after an error of a file. kStop: nothing more is written to the file, so all later output is
  // lost.
  enum class AfterTrouble { kGoOn, kStop };
  std::shared_ptr<File> add(std::unique_ptr<LogParts> parts, Trouble trouble,
                            AfterTrouble after = AfterTrouble::kGoOn);
  // Returns true if nothing waits to be written.
  bool idle() const;
  // Returns when the file system last completed an operation of the thread. If there is nothing to write,
  // returns `now`.
  TimePoint alive_at(TimePoint now) const;
  // Waits until everything is written. It stops waiting in two cases: if the file system has completed
  // nothing for the time `stall`, or if kHurryLimit has passed since `in_hurry` first returned true.
  awaitable<void> written(Duration stall, std::function<bool()> in_hurry) const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
};

class LogWriter::File : public std::enable_shared_from_this<File> {
 public:
  // Queues the bytes. The first call opens the file.
  void put(std::string_view bytes);
  // Makes the thread open the file, although there is nothing to write yet.
  void prepare() { put({}); }
  // Closes the file once everything is written. A file without content is created, too. After that, removes
  // the file `replaced`, unless bytes were lost. Do not call put() after this.
  void close(std::string replaced = {});
  std::size_t backlog_bytes() const;
  struct Progress {
    std::uint64_t written_bytes = 0;
    bool closed = false;   // close() was called, and everything is written
    bool waiting = false;  // some bytes are not written yet
  };
  Progress progress() const;
  // Reads a piece of the data that was written (LogParts::read). The read begins when no file has queued
  // bytes any more. Then the executor calls `on_read`. A file can have only one request at a time.
  using OnRead = std::function<void(Expected<LogParts::Piece> piece)>;
  void read(std::uint64_t offset, std::size_t limit_bytes, OnRead on_read);
  // Sets a function that the executor calls whenever bytes have been written or lost. Call before the first
  // put().
  void set_on_written(std::function<void()> on_written) { on_written_ = std::move(on_written); }
  // Returns how many bytes could not be written.
  std::uint64_t lost_bytes() const { return lost_bytes_; }
  const std::string& path() const { return parts_->path(); }

 private:
  friend class LogWriter;
  File() = default;
  void list();  // under the lock
  struct Question {
    std::uint64_t offset = 0;
    std::size_t limit_bytes = 0;
    OnRead on_read;
  };

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<LogParts> parts_;  // only the thread uses it, except for the path
  Trouble trouble_;
  std::function<void()> on_written_;
  AfterTrouble after_ = AfterTrouble::kGoOn;
  bool told_ = false;  // only the thread uses it
  std::atomic<std::uint64_t> lost_bytes_ = 0;
  std::atomic<std::uint64_t> written_bytes_ = 0;
  // Under the lock:
  std::string queue_;
  std::size_t writing_bytes_ = 0;  // bytes that the thread has taken from the queue
  bool listed_ = false;            // in the thread's list of files to serve
  bool closing_ = false;
  std::string replaced_;
  Question question_;
};

}  // namespace muster::net
