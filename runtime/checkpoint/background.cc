#include "runtime/checkpoint/background.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "common/base/quiet_thread.h"

namespace muster {

namespace {

// A thread with these values has low priority. If it competes with a normal thread, it gets a tenth of the
// processor time that the normal thread gets. Its reads and writes wait in the disk's queue until all others
// are done.
constexpr int kNiceness = 10;
constexpr int kLeastOfBestEffort = 2 << 13 | 7;  // IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7)
constexpr int kThisThread = 1;                   // IOPRIO_WHO_PROCESS; id 0 means the calling thread

}  // namespace

Background::~Background() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::future<void> Background::submit(std::function<void()> task) {
  std::packaged_task<void()> packaged(std::move(task));
  std::future<void> result = packaged.get_future();
  const std::lock_guard lock(mutex_);
  while (std::cmp_less(threads_.size(), thread_count_)) {
    try {
      threads_.push_back(start_quiet_thread(name_, [this](const std::stop_token& stop) { work(stop); }));
    } catch (...) {
      if (threads_.empty()) throw;
      break;  // the threads that did start run all tasks
    }
  }
  tasks_.push_back(std::move(packaged));
  has_tasks_.notify_one();
  return result;
}

void Background::work(const std::stop_token& stop) {
  if (yielding_) {
    // Ignores errors: if the system refuses, the thread keeps its normal priority, which does no harm.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
    syscall(SYS_ioprio_set, kThisThread, 0, kLeastOfBestEffort);
  }
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!has_tasks_.wait(lock, stop, [this] { return !tasks_.empty(); })) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }
}

}  // namespace muster
