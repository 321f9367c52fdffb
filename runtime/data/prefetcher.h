// Numbered batches loaded ahead by threads and handed out in order.
//
// At most `limit` batches are loaded and not yet taken. A failed load is rethrown by the take() of its
// number, and by each further one. take() is for one thread; `load` runs in the workers, several at once. The
// destructor joins them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <muster/dataset.h>
#include <mutex>
#include <thread>
#include <vector>

namespace muster {

class Prefetcher {
 public:
  using Load = std::function<Batch(std::int64_t number)>;
  // Loads the numbers first, first + 1, ..., end - 1.
  struct Range {
    std::int64_t first;
    std::int64_t end;
  };
  Prefetcher(Load load, Range range, int workers, std::int64_t limit);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  std::int64_t end() const { return range_.end; }
  Batch take();

 private:
  struct Loaded {
    Batch batch;
    std::exception_ptr error;
  };
  void work(int worker);

  const Load load_;
  const Range range_;
  const std::int64_t limit_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable ready_;
  std::map<std::int64_t, Loaded> loaded_;
  std::int64_t next_to_load_;
  std::int64_t next_to_take_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster
