// Records what a rank did and when, in a file for ui.perfetto.dev and chrome://tracing: the Trace Event
// Format, a JSON array without its closing bracket, one event a line.
//
// Times are from this machine's monotonic clock; `launch trace` aligns those of several machines. Adding an
// event formats it into memory, in less than a microsecond; a thread ("muster-trace") appends the events to
// the file four times a second. A process that is killed loses the last quarter of a second and leaves at
// most its last line cut short. Events that come faster than the disk, or that would make the file larger
// than its limit, are left out, and the file says so. No error reaches the caller. Safe from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/file.h"

namespace muster {

// Events in one track follow each other or are nested. The number is the event's `tid`.
enum class TraceTrack : std::uint8_t {
  kStep = 1,
  kSections,
  kCommunication,
  kData,
  kCheckpoint,
  kWriting,
  kPipeline
};
inline constexpr std::pair<TraceTrack, std::string_view> kTraceTracks[] = {
    {TraceTrack::kStep, "step"},
    {TraceTrack::kSections, "sections"},  // around steps
    {TraceTrack::kCommunication, "communication"},
    {TraceTrack::kData, "data"},
    {TraceTrack::kCheckpoint, "checkpoint"},
    {TraceTrack::kWriting, "checkpoint writing"},
    {TraceTrack::kPipeline, "pipeline"}};

// An event of a trace.
struct TraceEvent {
  std::int64_t process = 0;
  std::int64_t track = 0;
  std::string_view name;
  std::int64_t begin_ns = 0;
  std::int64_t duration_ns = -1;  // -1: an instant
  std::string_view arguments{};   // the inside of a JSON object: "step":3
};
// Appends the JSON object; the name may have any bytes. A long name is cut.
void append_trace_event(std::string& text, const TraceEvent& event);
// Appends the name of a process (track 0) or of one of its tracks, and its place among the others.
void append_trace_name(std::string& text, std::int64_t process, std::int64_t track, std::string_view name,
                       std::int64_t place);

class TraceFile {
 public:
  static constexpr std::uint64_t kLimitBytes = 64 << 20;

  // Appends to an existing file, or creates it and its directory. Errors name the path.
  static Expected<std::unique_ptr<TraceFile>> open(const std::string& path, int rank,
                                                   std::uint64_t limit_bytes = kLimitBytes);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  void add(TraceTrack track, std::string_view name, TimePoint begin, TimePoint end,
           std::string_view arguments = {});
  // Returns when everything that was added before is in the file.
  void flush();

 private:
  TraceFile(UniqueFd fd, std::string path, int rank, std::uint64_t size_bytes, std::uint64_t limit_bytes);
  void put(std::string_view line);
  void write(std::string& lines);

  const UniqueFd fd_;
  const std::string path_;
  const int rank_;
  const std::uint64_t limit_bytes_;
  std::atomic<bool> ended_ = false;  // nothing more is put into the file
  std::mutex waiting_mutex_;
  std::string waiting_;  // its memory is reserved from the start
  std::uint64_t left_out_ = 0;
  std::condition_variable_any much_;
  std::mutex file_mutex_;
  std::string writing_;
  std::uint64_t size_bytes_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace muster
