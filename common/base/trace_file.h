// What a rank did and when, in a file that ui.perfetto.dev and chrome://tracing open: the Trace Event Format,
// a JSON array without its end, one event a line.
//
// Times are those of this machine's monotonic clock; `launch trace` puts those of several machines on one. An
// event is formatted into memory, in less than a microsecond, and a thread ("muster-trace") appends what has
// come four times a second: a process that is killed loses that much, and leaves at most its last line torn.
// What the disk does not take in time, and what would make the file larger than its limit, is left out, and
// the file says so. Nothing here fails its caller. Safe from any thread.
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

// What happens in one track follows each other, or lies within each other. The number is the event's `tid`.
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

// One of them as it stands in a trace.
struct TraceEvent {
  std::int64_t process = 0;
  std::int64_t track = 0;
  std::string_view name;
  std::int64_t begin_ns = 0;
  std::int64_t duration_ns = -1;  // of a moment: -1
  std::string_view arguments{};   // the inside of a JSON object: "step":3
};
// Appends the JSON object, whatever bytes stand in the name. Of a long name the beginning counts.
void append_trace_event(std::string& text, const TraceEvent& event);
// The name of a process (of track 0), or of one of its tracks, and its place among the others.
void append_trace_name(std::string& text, std::int64_t process, std::int64_t track, std::string_view name,
                       std::int64_t place);

class TraceFile {
 public:
  static constexpr std::uint64_t kLimitBytes = 64 << 20;

  // Goes on at the end of a file that is there, or makes it with its directory. Errors name the path.
  static Expected<std::unique_ptr<TraceFile>> open(const std::string& path, int rank,
                                                   std::uint64_t limit_bytes = kLimitBytes);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  void add(TraceTrack track, std::string_view name, TimePoint begin, TimePoint end,
           std::string_view arguments = {});
  // Returns when all that was added before is in the file.
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
  std::string waiting_;  // its memory is there from the beginning
  std::uint64_t left_out_ = 0;
  std::condition_variable_any much_;
  std::mutex file_mutex_;
  std::string writing_;
  std::uint64_t size_bytes_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace muster
