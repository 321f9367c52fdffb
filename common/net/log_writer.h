// Writes log files on a thread of its own: a file system that blocks does not hold up the thread that has
// something to write.
//
// One thread for all files, in the order in which they got something to do. put() queues without limit: a
// caller to whom memory matters asks backlog_bytes() and alive_at() first. The thread is started by start()
// or the first put(), and hears of bytes once the executor's handler that put them has returned. When this
// object goes, the thread has a moment to write what is left; then it ends by itself, unless it hangs in the
// kernel. put() may be called by any thread, everything else by the executor's, which also hears of trouble.
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
  // What goes wrong with a file, in one clause; once a file.
  using Trouble = std::function<void(const std::string& what)>;

  explicit LogWriter(asio::any_io_executor executor);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter();

  // Starts the thread now. Where it cannot be had, what is put into a file waits until a put() into another
  // one has more luck.
  Status start();
  // What becomes of a file of which a piece could not be written: kStop: it ends there, and the rest is lost.
  enum class AfterTrouble { kGoOn, kStop };
  std::shared_ptr<File> add(std::unique_ptr<LogParts> parts, Trouble trouble,
                            AfterTrouble after = AfterTrouble::kGoOn);
  // Nothing waits to be written.
  bool idle() const;
  // When the file system last did what the thread asked for; `now` if there is nothing to do.
  TimePoint alive_at(TimePoint now) const;
  // Waits until all is written, or the file system has done nothing for `stall`, or kHurryLimit has passed
  // since `in_hurry` first returned true.
  awaitable<void> written(Duration stall, std::function<bool()> in_hurry) const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
};

class LogWriter::File : public std::enable_shared_from_this<File> {
 public:
  // Queues the bytes. The file is opened with the first of them.
  void put(std::string_view bytes);
  // Opens it although there is nothing to write yet.
  void prepare() { put({}); }
  // Closes the file once all is written, and creates it if nothing was. Nothing may be put after this call.
  void close();
  std::size_t backlog_bytes() const;
  struct Progress {
    std::uint64_t written_bytes = 0;
    bool closed = false;   // by close(), and all has been written
    bool waiting = false;  // something is still to be written
  };
  Progress progress() const;
  // Reads back what was written (LogParts::read), when no file has anything to be written. The executor hears
  // of the answer; one question at a time.
  using OnRead = std::function<void(Expected<LogParts::Piece> piece)>;
  void read(std::uint64_t offset, std::size_t limit_bytes, OnRead on_read);
  // The executor hears each time that what was put has been written, or lost. Before the first put().
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
  std::unique_ptr<LogParts> parts_;  // the thread's, but for its path
  Trouble trouble_;
  std::function<void()> on_written_;
  AfterTrouble after_ = AfterTrouble::kGoOn;
  bool told_ = false;  // the thread's
  std::atomic<std::uint64_t> lost_bytes_ = 0;
  std::atomic<std::uint64_t> written_bytes_ = 0;
  // Under the lock:
  std::string queue_;
  std::size_t writing_bytes_ = 0;  // taken from the queue by the thread
  bool listed_ = false;            // for the thread to look at
  bool closing_ = false;
  Question question_;
};

}  // namespace muster::net
