#include "common/base/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <sys/stat.h>
#include <system_error>

#include "common/base/log.h"
#include "common/base/quiet_thread.h"
#include "common/base/text.h"

namespace muster {

namespace {

constexpr auto kPeriod = std::chrono::milliseconds(250);
constexpr std::size_t kWaitingBytes = std::size_t{1} << 20;
constexpr std::size_t kNameBytes = 200;
constexpr std::string_view kEnd = ",\n";

void append_text(std::string& text, std::string_view name) {
  name = beginning_of(name, kNameBytes);
  const bool is_json = is_utf8(name);
  text += '"';
  for (const char letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') text += '\\';
    if (code < ' ')
      fmt::format_to(std::back_inserter(text), "\\u{:04x}", code);
    else
      text += code >= 0x80 && !is_json ? '?' : letter;
  }
  text += '"';
}

// Appends the time in microseconds, which is the format's unit.
void append_time(std::string& text, std::int64_t ns) {
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  fmt::format_to(std::back_inserter(text), "{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

void append_metadata(std::string& text, std::int64_t process, std::int64_t track, std::string_view what) {
  fmt::format_to(std::back_inserter(text), R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{)", process,
                 track, what);
}

std::string first_lines(int rank) {
  std::string lines = "[\n";
  append_trace_name(lines, rank, 0, fmt::format("rank {}", rank), rank);
  for (const auto& [track, name] : kTraceTracks) {
    lines += kEnd;
    append_trace_name(lines, rank, static_cast<std::int64_t>(track), name, static_cast<std::int64_t>(track));
  }
  lines += kEnd;
  return lines;
}

}  // namespace

void append_trace_event(std::string& text, const TraceEvent& event) {
  const bool is_moment = event.duration_ns < 0;
  fmt::format_to(std::back_inserter(text), R"({{"ph":"{}","pid":{},"tid":{},"ts":)", is_moment ? 'i' : 'X',
                 event.process, event.track);
  append_time(text, event.begin_ns);
  text += is_moment ? R"(,"s":"t")" : R"(,"dur":)";
  if (!is_moment) append_time(text, event.duration_ns);
  text += R"(,"name":)";
  append_text(text, event.name);
  if (!event.arguments.empty())
    fmt::format_to(std::back_inserter(text), R"(,"args":{{{}}})", event.arguments);
  text += '}';
}

void append_trace_name(std::string& text, std::int64_t process, std::int64_t track, std::string_view name,
                       std::int64_t place) {
  append_metadata(text, process, track, track == 0 ? "process_name" : "thread_name");
  text += R"("name":)";
  append_text(text, name);
  text += "}},\n";
  append_metadata(text, process, track, track == 0 ? "process_sort_index" : "thread_sort_index");
  fmt::format_to(std::back_inserter(text), R"("sort_index":{}}}}})", place);
}

// Opens the file. If it exists, appends a newline first, because an earlier process of the rank may have left
// an incomplete line.
Expected<std::unique_ptr<TraceFile>> TraceFile::open(const std::string& path, int rank,
                                                     std::uint64_t limit_bytes) {
  if (Status made = make_directories(std::filesystem::path(path).parent_path().string()); !made)
    return std::unexpected(made.error());
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644));
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) != 0) return system_failure("cannot write " + path, errno);
  if (!S_ISREG(status.st_mode))
    return failure(ErrorCode::kUnavailable, "cannot write {}: not a regular file", path);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  try {
    std::unique_ptr<TraceFile> file(new TraceFile(std::move(fd), path, rank, size, limit_bytes));
    file->put(size == 0 ? first_lines(rank) : "\n");
    return file;
  } catch (const std::system_error& error) {
    return failure(ErrorCode::kUnavailable, "cannot write {}: {}", path, error.what());
  }
}

TraceFile::TraceFile(UniqueFd fd, std::string path, int rank, std::uint64_t size_bytes,
                     std::uint64_t limit_bytes)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      rank_(rank),
      limit_bytes_(limit_bytes),
      size_bytes_(size_bytes) {
  waiting_.reserve(kWaitingBytes);
  writing_.reserve(kWaitingBytes);
  thread_ = start_quiet_thread("muster-trace", [this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      {
        std::unique_lock lock(waiting_mutex_);
        much_.wait_for(lock, stop, kPeriod, [this] { return waiting_.size() > kWaitingBytes / 2; });
      }
      flush();
    }
  });
}

TraceFile::~TraceFile() {
  thread_.request_stop();
  thread_.join();
  flush();
}

void TraceFile::add(TraceTrack track, std::string_view name, TimePoint begin, TimePoint end,
                    std::string_view arguments) {
  if (ended_.load(std::memory_order_relaxed)) return;
  std::string line;
  append_trace_event(line, {.process = rank_,
                            .track = static_cast<std::int64_t>(track),
                            .name = name,
                            .begin_ns = to_ns(begin),
                            .duration_ns = std::max<std::int64_t>(to_ns(end - begin), 0),
                            .arguments = arguments});
  line += kEnd;
  put(line);
}

// This function allocates no memory while it has the lock. If an allocation failed, an exception handler
// could call flush(), which needs the same lock.
void TraceFile::put(std::string_view line) {
  bool much = false;
  {
    const std::lock_guard lock(waiting_mutex_);
    if (waiting_.size() + line.size() > kWaitingBytes) {
      ++left_out_;
      return;
    }
    waiting_ += line;
    much = waiting_.size() > kWaitingBytes / 2;
  }
  if (much) much_.notify_one();
}

void TraceFile::flush() {
  const std::lock_guard file_lock(file_mutex_);
  std::uint64_t left_out = 0;
  {
    const std::lock_guard lock(waiting_mutex_);
    std::swap(waiting_, writing_);
    left_out = std::exchange(left_out_, 0);
  }
  if (left_out > 0) {
    append_trace_event(writing_,
                       {.process = rank_,
                        .track = static_cast<std::int64_t>(TraceTrack::kStep),
                        .name = fmt::format("{} events are left out here: the disk was too slow", left_out),
                        .begin_ns = to_ns(Clock::now())});
    writing_ += kEnd;
  }
  if (!writing_.empty()) write(writing_);
  writing_.clear();
}

void TraceFile::write(std::string& lines) {
  if (ended_) return;
  if (size_bytes_ + lines.size() > limit_bytes_) {
    ended_ = true;
    lines.clear();
    append_trace_event(
        lines, {.process = rank_,
                .track = static_cast<std::int64_t>(TraceTrack::kStep),
                .name = fmt::format("the trace ends here: it is limited to {} MiB", limit_bytes_ >> 20),
                .begin_ns = to_ns(Clock::now())});
    lines += kEnd;
  }
  size_bytes_ += lines.size();
  const Status written = write_all(fd_.get(), lines, path_);
  if (written) return;
  ended_ = true;
  log::warning("{}; the trace of rank {} ends there", written.error().message(), rank_);
}

}  // namespace muster
