#include "runtime/data/prefetcher.h"

#include <c10/util/ParallelGuard.h>
#include <fmt/core.h>
#include <pthread.h>
#include <torch/torch.h>

#include "common/base/check.h"

namespace muster {

Prefetcher::Prefetcher(Load load, Range range, int workers, std::int64_t limit)
    : load_(std::move(load)),
      range_(range),
      limit_(limit),
      next_to_load_(range.first),
      next_to_take_(range.first) {
  for (int worker = 0; worker < workers; ++worker) {
    threads_.emplace_back([this, worker] { work(worker); });
  }
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Batch Prefetcher::take() {
  std::unique_lock lock(mutex_);
  CHECK(next_to_take_ < range_.end);
  ready_.wait(lock, [this] { return loaded_.contains(next_to_take_); });
  const auto found = loaded_.find(next_to_take_);
  if (found->second.error) std::rethrow_exception(found->second.error);
  Batch batch = std::move(found->second.batch);
  loaded_.erase(found);
  ++next_to_take_;
  lock.unlock();
  room_.notify_one();
  return batch;
}

void Prefetcher::work(int worker) {
  pthread_setname_np(pthread_self(), fmt::format("muster-load-{}", worker).c_str());
  // The cores belong to training: a worker must not open a pool of compute threads of its own.
  const c10::ParallelGuard inside_a_parallel_region(true);
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [this] {
      return stopping_ || next_to_load_ >= range_.end || next_to_load_ < next_to_take_ + limit_;
    });
    if (stopping_ || next_to_load_ >= range_.end) return;
    const std::int64_t number = next_to_load_++;
    lock.unlock();
    Loaded loaded;
    try {
      loaded.batch = load_(number);
    } catch (...) {
      loaded.error = std::current_exception();
    }
    lock.lock();
    loaded_.emplace(number, std::move(loaded));
    ready_.notify_one();
  }
}

}  // namespace muster
