// Writes log files on a separate thread, so that a blocked file system does not hold up the thread that logs.
//
// One thread serves all files, in the order in which work was queued. put() queues without limit: a caller
// that must save memory checks backlog_bytes() and alive_at() first. start() or the first put() starts the
// thread, which writes once the executor's handler that called put() has returned. When this object is
// destroyed, the thread has a moment to write the rest; then it ends, unless it hangs in the kernel. Any
// thread may call put(); all else is for the executor's thread, which also runs the callbacks.
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
  // Called with an error of a file, as one clause, at most once a file.
  using Trouble = std::function<void(const std::string& what)>;

  explicit LogWriter(asio::any_io_executor executor);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter();

  // Starts the thread now. If that fails, bytes for a file wait until a put() into another file can start it.
  Status start();
  // kStop: after an error, stop writing to the file; the rest is lost.
  enum class AfterTrouble { kGoOn, kStop };
  std::shared_ptr<File> add(std::unique_ptr<LogParts> parts, Trouble trouble,
                            AfterTrouble after = AfterTrouble::kGoOn);
  // True if nothing waits to be written.
  bool idle() const;
  // When the file system last completed an operation of the thread; `now` if there is nothing to do.
  TimePoint alive_at(TimePoint now) const;
  // Waits until everything is written, the file system has completed nothing for `stall`, or kHurryLimit has
  // passed since `in_hurry` first returned true.
  awaitable<void> written(Duration stall, std::function<bool()> in_hurry) const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
};

class LogWriter::File : public std::enable_shared_from_this<File> {
 public:
  // Queues the bytes. The first call opens the file.
  void put(std::string_view bytes);
  // Opens the file although there is nothing to write yet.
  void prepare() { put({}); }
  // Closes the file once everything is written; if nothing was written, creates it first. Then removes the
  // file `replaced`, unless bytes were lost. No put() after this call.
  void close(std::string replaced = {});
  std::size_t backlog_bytes() const;
  struct Progress {
    std::uint64_t written_bytes = 0;
    bool closed = false;   // close() was called and everything is written
    bool waiting = false;  // some bytes are not written yet
  };
  Progress progress() const;
  // Reads back what was written (LogParts::read), when no file has anything to write. The executor runs
  // `on_read`; one request at a time.
  using OnRead = std::function<void(Expected<LogParts::Piece> piece)>;
  void read(std::uint64_t offset, std::size_t limit_bytes, OnRead on_read);
  // The executor calls this whenever bytes have been written or lost. Call before the first put().
  void set_on_written(std::function<void()> on_written) { on_written_ = std::move(on_written); }
  // Bytes that could not be written.
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
  std::unique_ptr<LogParts> parts_;  // used by the thread, except the path
  Trouble trouble_;
  std::function<void()> on_written_;
  AfterTrouble after_ = AfterTrouble::kGoOn;
  bool told_ = false;  // used by the thread only
  std::atomic<std::uint64_t> lost_bytes_ = 0;
  std::atomic<std::uint64_t> written_bytes_ = 0;
  // Under the lock:
  std::string queue_;
  std::size_t writing_bytes_ = 0;  // taken from the queue by the thread
  bool listed_ = false;            // in the thread's list of files to serve
  bool closing_ = false;
  std::string replaced_;
  Question question_;
};

}  // namespace muster::net
