// Writes log files on a separate thread, so that a blocked file system does not block the thread that logs.
//
// - One thread serves all files, in the order in which they got something to write. start() or the first
//   put() starts it.
// - put() has no limit. A caller that must limit memory checks backlog_bytes() and alive_at() first.
// - The destructor gives the thread up to a second to write what is queued. Then the thread waits for
//   another writer, unless it hangs in the kernel.
// Any thread can call put(). Call all other functions on the executor's thread, which also runs the
// callbacks.
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
  // Called with the first error of a file, as one clause.
  using Trouble = std::function<void(const std::string& what)>;

  explicit LogWriter(asio::any_io_executor executor);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter();

  // Starts the thread now. If this fails, a later put() into another file tries again.
  Status start();
  // kStop: after an error nothing more is written to the file, and what follows is lost.
  enum class AfterTrouble { kGoOn, kStop };
  std::shared_ptr<File> add(std::unique_ptr<LogParts> parts, Trouble trouble,
                            AfterTrouble after = AfterTrouble::kGoOn);
  // Returns whether nothing waits to be written.
  bool idle() const;
  // Returns when the file system last completed an operation of the thread; `now` if there is nothing to
  // write.
  TimePoint alive_at(TimePoint now) const;
  // Waits until everything is written. Stops waiting if the file system has completed nothing for `stall`, or
  // if kHurryLimit has passed since `in_hurry` first returned true.
  awaitable<void> written(Duration stall, std::function<bool()> in_hurry) const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
};

class LogWriter::File : public std::enable_shared_from_this<File> {
 public:
  // Queues the bytes. The first call opens the file.
  void put(std::string_view bytes);
  // Has the thread open the file, although there is nothing to write yet.
  void prepare() { put({}); }
  // Closes the file once everything is written; a file without content is created. Afterwards removes the
  // file `replaced`, unless bytes were lost. Do not call put() after this.
  void close(std::string replaced = {});
  std::size_t backlog_bytes() const;
  struct Progress {
    std::uint64_t written_bytes = 0;
    bool closed = false;   // close() was called, and everything is written
    bool waiting = false;  // some bytes are not written yet
  };
  Progress progress() const;
  // Reads what was written (LogParts::read), once no file has anything to write. The executor runs `on_read`.
  // A file can have only one request at a time.
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
