#include "common/net/log_writer.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/base/quiet_thread.h"

namespace muster::net {

namespace {

// The number of bytes that are written at once. It is small, because each completed write shows that the file
// system responds.
constexpr std::size_t kPieceBytes = 256 << 10;
// If this many bytes come into a queue at once, the queue gets room for kRoomyBytes, because more bytes may
// arrive before the thread has written the first ones.
constexpr std::size_t kMuchBytes = 32 << 10;
constexpr std::size_t kRoomyBytes = 768 << 10;
constexpr std::size_t kSpareBytes = 16 << 20;  // of memory that is kept for other queues
// Limits for the destructor.
constexpr Duration kLastStall = std::chrono::milliseconds(200);
constexpr Duration kLastLimit = std::chrono::seconds(1);
constexpr Duration kLookAgain = std::chrono::milliseconds(20);

// The threads of all writers. When the writer of a thread is gone, the thread waits for the next writer. An
// agent of many jobs has one writer after the other, and to start a thread takes longer than most writes. The
// threads are detached, because they may hang.
class WriterThreads {
 public:
  // The object is never destroyed, because threads may wait in it until the process ends.
  static WriterThreads& all() {
    static auto* const threads = new WriterThreads;
    return *threads;
  }
  Status run(std::function<void()> work) {
    const std::scoped_lock lock(mutex_);
    try {
      if (waiting_ == works_.size())
        start_quiet_thread("muster-logs", [this](const std::stop_token&) { serve(); }).detach();
    } catch (const std::system_error& error) {
      return failure(ErrorCode::kUnavailable, "{}", error.what());
    }
    works_.push_back(std::move(work));
    wake_.notify_one();
    return {};
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++waiting_;
      wake_.wait(lock, [this] { return !works_.empty(); });
      --waiting_;
      auto work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      work();
      work = {};
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> works_;  // for threads that wait, or start
  std::size_t waiting_ = 0;
};

}  // namespace

struct LogWriter::Shared : std::enable_shared_from_this<Shared> {
  explicit Shared(asio::any_io_executor its_executor) : executor(std::move(its_executor)) {}

  // Arranges that the thread is woken when the current handler of the executor has returned. The caller must
  // have the lock.
  void call_later();
  void call();
  Status start();
  void run();
  // Writes bytes for the first file of `listed`. This function releases the lock while it writes, and takes
  // it again.
  void serve(std::unique_lock<std::mutex>& lock);
  // Answers the first request in `asked`. This function releases the lock while it works, and takes it again.
  void answer(std::unique_lock<std::mutex>& lock);
  void write(File& file, std::string_view bytes);
  void tell(File& file, const Error& error);
  // Returns false if the file system has not responded for kLastStall, or if the time `end` has come.
  // Otherwise returns true. Call this while there is something to write.
  bool lives(TimePoint end) const {
    const TimePoint now = Clock::now();
    return now < end && now < TimePoint(from_ns(alive_ns)) + kLastStall;
  }

  asio::any_io_executor executor;
  mutable std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable emptied;
  std::deque<std::shared_ptr<File>> listed;
  std::deque<std::shared_ptr<File>> asked;  // files to read back, when `listed` is empty
  std::vector<std::string> spares;          // memory of written queues; the last one is reused first
  std::size_t spare_bytes = 0;
  bool busy = false;
  bool ended = false;  // the executor is gone, or soon will be
  std::atomic<std::int64_t> alive_ns = 0;
  std::shared_ptr<asio::steady_timer> waiter;  // the timer of written(), while it waits
  bool called = false;                         // call() is posted, but has not run yet
  bool started = false;                        // used only on the executor's thread
};

Status LogWriter::start() {
  return shared_->start();
}

LogWriter::LogWriter(asio::any_io_executor executor)
    : shared_(std::make_shared<Shared>(std::move(executor))) {}

LogWriter::~LogWriter() {
  const TimePoint end = Clock::now() + kLastLimit;
  std::unique_lock lock(shared_->mutex);
  if (shared_->called) {  // the executor has not run call() yet
    shared_->alive_ns = to_ns(Clock::now());
    lock.unlock();
    shared_->call();
    lock.lock();
  }
  while ((shared_->busy || !shared_->listed.empty()) && shared_->lives(end))
    shared_->emptied.wait_for(lock, kLookAgain);
  shared_->ended = true;
  shared_->listed.clear();
  shared_->asked.clear();
  shared_->waiter.reset();  // a hanging thread may outlive the timer's io_context
  lock.unlock();
  shared_->wake.notify_one();
}

std::shared_ptr<LogWriter::File> LogWriter::add(std::unique_ptr<LogParts> parts, Trouble trouble,
                                                AfterTrouble after) {
  std::shared_ptr<File> file(new File);
  file->shared_ = shared_;
  file->written_bytes_ = parts->written_bytes();
  file->parts_ = std::move(parts);
  file->trouble_ = std::move(trouble);
  file->after_ = after;
  return file;
}

// Arranges that the thread is woken once for everything that the current handler queues. It would be slow to
// wake the thread for each write: a wake-up takes longer than most writes, and the woken thread competes for
// the lock.
void LogWriter::Shared::call_later() {
  if (ended || std::exchange(called, true)) return;
  asio::post(executor, [shared = shared_from_this()] { shared->call(); });
}

// Wakes the thread, or starts it.
void LogWriter::Shared::call() {
  {
    const std::scoped_lock lock(mutex);
    called = false;
    if (ended) return;
  }
  if (started) return wake.notify_one();
  (void)start();  // an owner that needs the error has called start() itself
}

Status LogWriter::Shared::start() {
  if (started) return {};
  const Status running = WriterThreads::all().run([shared = shared_from_this()] { shared->run(); });
  started = running.has_value();
  return running;
}

void LogWriter::Shared::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [this] { return ended || !listed.empty() || !asked.empty(); });
    if (ended) return;
    listed.empty() ? answer(lock) : serve(lock);
  }
}

void LogWriter::Shared::serve(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<File> file = std::move(listed.front());
  listed.pop_front();
  file->listed_ = false;
  std::string bytes = std::exchange(file->queue_, {});
  file->writing_bytes_ = bytes.size();
  const bool closing = file->closing_;
  const std::string replaced = std::exchange(file->replaced_, {});
  busy = true;
  lock.unlock();
  write(*file, bytes);
  if (closing) {
    file->parts_->close();
    if (!replaced.empty() && file->lost_bytes_ == 0) unlink(replaced.c_str());
  }
  lock.lock();
  busy = false;
  file->writing_bytes_ = 0;
  if (file->on_written_ && !ended) asio::post(executor, file->on_written_);
  if (!bytes.empty() && spare_bytes + bytes.capacity() <= kSpareBytes) {
    spare_bytes += bytes.capacity();
    spares.emplace_back(std::move(bytes)).clear();
  }
  if (listed.empty()) emptied.notify_all();
  if (listed.empty() && waiter && !ended) asio::post(executor, [timer = waiter] { timer->cancel(); });
}

void LogWriter::Shared::answer(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<File> file = std::move(asked.front());
  asked.pop_front();
  File::Question question = std::exchange(file->question_, {});
  lock.unlock();
  auto piece = file->parts_->read(question.offset, question.limit_bytes);
  lock.lock();
  if (ended) return;
  asio::post(executor, [on_read = std::move(question.on_read), piece = std::move(piece)]() mutable {
    on_read(std::move(piece));
  });
}

void LogWriter::Shared::write(File& file, std::string_view bytes) {
  const auto lives = [this] { alive_ns = to_ns(Clock::now()); };
  const auto ends = [&file] { return file.told_ && file.after_ == AfterTrouble::kStop; };
  if (ends()) {
    file.lost_bytes_ += bytes.size();
    return;
  }
  if (const Status opened = file.parts_->open(); !opened) tell(file, opened.error());
  lives();
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, kPieceBytes);
    // Several agents can append to one file. So a piece that contains a line end is cut after its last line
    // end.
    if (piece.size() < bytes.size()) piece = piece.substr(0, piece.rfind('\n') + 1);
    if (piece.empty()) piece = bytes.substr(0, kPieceBytes);
    bytes.remove_prefix(piece.size());
    const Status written = file.parts_->write(piece);
    file.written_bytes_ = file.parts_->written_bytes();
    lives();
    if (written) continue;
    file.lost_bytes_ += piece.size();
    tell(file, written.error());
    if (!ends()) continue;
    file.lost_bytes_ += bytes.size();
    return;
  }
}

void LogWriter::Shared::tell(File& file, const Error& error) {
  if (std::exchange(file.told_, true)) return;
  const std::scoped_lock lock(mutex);
  if (!ended) asio::post(executor, [trouble = file.trouble_, what = error.message()] { trouble(what); });
}

bool LogWriter::idle() const {
  const std::scoped_lock lock(shared_->mutex);
  return !shared_->busy && shared_->listed.empty();
}

TimePoint LogWriter::alive_at(TimePoint now) const {
  return idle() ? now : TimePoint(from_ns(shared_->alive_ns));
}

awaitable<void> LogWriter::written(Duration stall, std::function<bool()> in_hurry) const {
  const auto timer = std::make_shared<asio::steady_timer>(shared_->executor);
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->waiter = timer;
  }
  std::optional<TimePoint> end;
  for (TimePoint now = Clock::now(); !idle() && now < alive_at(now) + stall; now = Clock::now()) {
    if (!end && in_hurry()) end = now + kHurryLimit;
    if (end && now >= *end) break;
    timer->expires_after(kLookAgain);
    boost::system::error_code ignored;
    co_await timer->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->waiter == timer) shared_->waiter.reset();
}

void LogWriter::File::put(std::string_view bytes) {
  const std::scoped_lock lock(shared_->mutex);
  if (queue_.empty() && !bytes.empty() && !shared_->spares.empty()) {
    queue_ = std::move(shared_->spares.back());
    shared_->spares.pop_back();
    shared_->spare_bytes -= queue_.capacity();
  }
  if (bytes.size() >= kMuchBytes) queue_.reserve(kRoomyBytes);
  queue_.append(bytes);
  list();
}

void LogWriter::File::close(std::string replaced) {
  const std::scoped_lock lock(shared_->mutex);
  if (!closing_) replaced_ = std::move(replaced);
  if (!std::exchange(closing_, true)) list();
}

void LogWriter::File::list() {
  if (std::exchange(listed_, true)) return;
  if (!shared_->busy && shared_->listed.empty()) shared_->alive_ns = to_ns(Clock::now());
  shared_->listed.push_back(shared_from_this());
  if (!shared_->busy) shared_->call_later();
}

std::size_t LogWriter::File::backlog_bytes() const {
  const std::scoped_lock lock(shared_->mutex);
  return queue_.size() + writing_bytes_;
}

LogWriter::File::Progress LogWriter::File::progress() const {
  const std::scoped_lock lock(shared_->mutex);
  const bool waiting = listed_ || writing_bytes_ > 0;
  return {.written_bytes = written_bytes_, .closed = closing_ && !waiting, .waiting = waiting};
}

void LogWriter::File::read(std::uint64_t offset, std::size_t limit_bytes, OnRead on_read) {
  const std::scoped_lock lock(shared_->mutex);
  question_ = {offset, limit_bytes, std::move(on_read)};
  shared_->asked.push_back(shared_from_this());
  if (!shared_->busy) shared_->call_later();
}

}  // namespace muster::net
