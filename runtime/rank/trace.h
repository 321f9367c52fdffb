// The trace of this process: what the runtime does on this rank and when, for `launch trace`.
//
// Process-wide, as step_time() is. Where no trace is wanted, as a rule, all of it costs a look at a pointer.
// Safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "common/base/trace_file.h"

namespace muster {

namespace detail {
inline std::atomic<TraceFile*> current_trace = nullptr;
}
// Null where no trace is wanted.
inline TraceFile* trace_file() {
  return detail::current_trace.load(std::memory_order_acquire);
}

// From now on there is one, in the file of this path, if that can be written: else a warning says why not.
// Nothing if the path is empty, or there is one.
void start_trace(const std::string& path, int rank);
// What is in the trace so far is in its file. Never throws.
void flush_trace() noexcept;

// The inside of a JSON object for an event: "step":3.
inline std::string trace_argument(std::string_view name, std::int64_t value) {
  return fmt::format("\"{}\":{}", name, value);
}

// Puts into the trace how long it has lived. The name must outlive it.
class Traced {
 public:
  Traced(TraceTrack track, std::string_view name) : file_(trace_file()), track_(track), name_(name) {
    if (file_ != nullptr) begin_ = Clock::now();
  }
  // With a number that belongs to it, such as its step.
  Traced(TraceTrack track, std::string_view name, std::string_view argument, std::int64_t value)
      : Traced(track, name) {
    if (file_ != nullptr) arguments_ = trace_argument(argument, value);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;
  ~Traced() {
    if (file_ != nullptr) file_->add(track_, name_, begin_, Clock::now(), arguments_);
  }

 private:
  TraceFile* file_;
  TraceTrack track_;
  std::string_view name_;
  TimePoint begin_{};
  std::string arguments_;
};

}  // namespace muster
