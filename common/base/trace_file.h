// Records what a rank did and when, in a file for ui.perfetto.dev and chrome://tracing. The file has the
// Trace Event Format: a JSON array without its closing bracket, with one event per line.
//
// - Times are of this machine's monotonic clock; `launch trace` aligns those of several machines.
// - Adding an event takes less than a microsecond. A thread ("muster-trace") writes the events to the file
//   four times a second.
// - If the process is killed, the events of the last quarter of a second are lost, and the last line in the
//   file can be incomplete.
// - If events come too fast for the disk, or the file has reached its limit, events are left out, and the
//   file says so.
// After open(), errors are only logged. Safe from any thread.
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

// A row of events in the viewer. Two events of one track do not overlap, unless one lies within the other. An
// event has the number of its track as `tid`.
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
    {TraceTrack::kSections, "sections"},  // a section can contain steps
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
  std::string_view arguments{};   // the members of a JSON object, such as "step":3
};
// Appends the event as a JSON object. The name can consist of any bytes. If it is too long, it is cut.
void append_trace_event(std::string& text, const TraceEvent& event);
// Appends two JSON objects for the viewer. The first one gives a name to a process (track 0) or to one of its
// tracks. The second one gives its place among the other processes or tracks.
void append_trace_name(std::string& text, std::int64_t process, std::int64_t track, std::string_view name,
                       std::int64_t place);

class TraceFile {
 public:
  static constexpr std::uint64_t kLimitBytes = 64 << 20;

  // Opens the file to append to it. If the file does not exist, this function creates it, together with its
  // directory. An error names the path.
  static Expected<std::unique_ptr<TraceFile>> open(const std::string& path, int rank,
                                                   std::uint64_t limit_bytes = kLimitBytes);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  void add(TraceTrack track, std::string_view name, TimePoint begin, TimePoint end,
           std::string_view arguments = {});
  // When this returns, everything that was added before is in the file.
  void flush();

 private:
  TraceFile(UniqueFd fd, std::string path, int rank, std::uint64_t size_bytes, std::uint64_t limit_bytes);
  void put(std::string_view line);
  void write(std::string& lines);

  const UniqueFd fd_;
  const std::string path_;
  const int rank_;
  const std::uint64_t limit_bytes_;
  std::atomic<bool> ended_ = false;  // nothing more is written to the file
  std::mutex waiting_mutex_;
  std::string waiting_;  // has all its memory from the start
  std::uint64_t left_out_ = 0;
  std::condition_variable_any much_;
  std::mutex file_mutex_;
  std::string writing_;
  std::uint64_t size_bytes_;
  std::jthread thread_;  // the last member, because the thread uses the others
};

}  // namespace muster
