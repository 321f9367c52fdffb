// The trace of this process: what the runtime does on this rank and when, for `launch trace`.
//
// There is one trace per process. Usually there is none, and then each function costs one check of a pointer.
// Any thread can call the functions.
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
// Returns null if there is no trace.
inline TraceFile* trace_file() {
  return detail::current_trace.load(std::memory_order_acquire);
}

// Starts the trace in this file. If the file cannot be written, warns with the reason. If the path is empty,
// or if a trace was started before, does nothing.
void start_trace(const std::string& path, int rank);
// Writes the trace so far to its file. Never throws.
void flush_trace() noexcept;

// Returns a member of the JSON object of an event, such as "step":3.
inline std::string trace_argument(std::string_view name, std::int64_t value) {
  return fmt::format("\"{}\":{}", name, value);
}

// The destructor adds an event to the trace: the time between the construction and the destruction of the
// Traced. The name must outlive the Traced.
class Traced {
 public:
  Traced(TraceTrack track, std::string_view name) : file_(trace_file()), track_(track), name_(name) {
    if (file_ != nullptr) begin_ = Clock::now();
  }
  // Also records a number, such as the step.
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
