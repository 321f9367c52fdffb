#include "runtime/rank/trace.h"

#include <cstdlib>
#include <mutex>

#include "common/base/log.h"

namespace muster {

// The file is never destroyed, because a Job in static storage may outlive other static objects.
void start_trace(const std::string& path, int rank) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (path.empty() || trace_file() != nullptr) return;
  auto file = TraceFile::open(path, rank);
  if (!file) return log::warning("rank {} writes no trace: {}", rank, file.error().message());
  detail::current_trace.store(file->release(), std::memory_order_release);
  std::atexit(flush_trace);
}

void flush_trace() noexcept {
  if (TraceFile* const file = trace_file()) file->flush();
}

}  // namespace muster
