// The plans of the epochs in use: each is made once, and the next one ahead, by a thread of its own.
//
// An epoch is cut from its beginning or from a place within it on. Safe from any thread. Making a plan holds
// no lock that another plan is waited for with.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <muster/data/batch_plan.h>
#include <mutex>
#include <thread>
#include <utility>

namespace muster {

class EpochPlans {
 public:
  // `make` may be called by several threads at once.
  using Make = std::function<BatchPlan(std::int64_t epoch, std::int64_t first)>;
  explicit EpochPlans(Make make) : make_(std::move(make)) {}
  EpochPlans(const EpochPlans&) = delete;
  EpochPlans& operator=(const EpochPlans&) = delete;
  ~EpochPlans() = default;  // waits for a plan that is being made

  // Waits for a plan that is under way, else makes it. Forgets all but those of epochs near by.
  // What `make` throws is thrown to all who wait for it; who asks after that has it tried again.
  std::shared_ptr<const BatchPlan> get(std::int64_t epoch, std::int64_t first);
  // Waits for nobody: null if it is not made yet, or cannot be.
  std::shared_ptr<const BatchPlan> made(std::int64_t epoch, std::int64_t first);
  // Begins to make it, from its beginning on, unless it is there or another one is being made ahead.
  void make_ahead(std::int64_t epoch);

 private:
  using Plan = std::shared_ptr<const BatchPlan>;
  using Task = std::packaged_task<Plan()>;
  using Key = std::pair<std::int64_t, std::int64_t>;  // epoch and first place
  // `busy` becomes false before anybody has the plan, and wants the one after it made ahead.
  std::shared_ptr<Task> add(const Key& key, std::atomic<bool>* busy);

  const Make make_;
  std::mutex mutex_;
  std::map<Key, std::shared_future<Plan>> plans_;
  std::atomic<bool> busy_ahead_ = false;
  std::jthread ahead_;  // the last member: it uses the others
};

}  // namespace muster
