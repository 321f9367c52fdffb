// The plans of the epochs in use. Each plan is made once; a separate thread makes the next epoch's plan
// ahead.
//
// A plan covers an epoch from its start, or from a place within it, to its end. Safe from any thread. No lock
// is held while a plan is made, so a slow plan delays only the callers that need it.
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
  // Several threads can call `make` at once.
  using Make = std::function<BatchPlan(std::int64_t epoch, std::int64_t first)>;
  explicit EpochPlans(Make make) : make_(std::move(make)) {}
  EpochPlans(const EpochPlans&) = delete;
  EpochPlans& operator=(const EpochPlans&) = delete;
  ~EpochPlans() = default;  // waits for a plan that is being made

  // Makes the plan, or waits for it if another thread is making it. Drops the plans of distant epochs. If
  // `make` throws, all waiting callers get the exception; a later call tries again.
  std::shared_ptr<const BatchPlan> get(std::int64_t epoch, std::int64_t first);
  // Never waits: returns null if the plan is not made yet, or could not be made.
  std::shared_ptr<const BatchPlan> made(std::int64_t epoch, std::int64_t first);
  // Begins to make the plan of a whole epoch, unless it exists or another plan is being made ahead.
  void make_ahead(std::int64_t epoch);

 private:
  using Plan = std::shared_ptr<const BatchPlan>;
  using Task = std::packaged_task<Plan()>;
  using Key = std::pair<std::int64_t, std::int64_t>;  // epoch and first place
  // `busy` becomes false before a waiting caller gets the plan, so that this caller can have the next one
  // made ahead.
  std::shared_ptr<Task> add(const Key& key, std::atomic<bool>* busy);

  const Make make_;
  std::mutex mutex_;
  std::map<Key, std::shared_future<Plan>> plans_;
  std::atomic<bool> busy_ahead_ = false;
  std::jthread ahead_;  // the last member: it uses the others
};

}  // namespace muster
