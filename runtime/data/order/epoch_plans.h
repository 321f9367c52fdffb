// Keeps the batch plans of the epochs in use. Each plan is made once. A separate thread makes the next
// epoch's plan ahead of time.
//
// A plan covers an epoch from its start, or from a place within it, to its end. Any thread can call the
// functions. They hold no lock while they make a plan, so a slow plan delays only the callers that need it.
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
  ~EpochPlans() = default;  // waits for the plan that `ahead_` is making

  // Returns the plan: makes it, or waits for the thread that is making it. Drops the plans of distant epochs.
  // If `make` throws, all waiting callers get the exception, and a later call tries again.
  std::shared_ptr<const BatchPlan> get(std::int64_t epoch, std::int64_t first);
  // Never waits: returns null if the plan is not made yet, or could not be made.
  std::shared_ptr<const BatchPlan> made(std::int64_t epoch, std::int64_t first);
  // Starts a thread that makes the plan of a whole epoch. Does nothing if that plan exists, or if such a
  // thread is running.
  void make_ahead(std::int64_t epoch);

 private:
  using Plan = std::shared_ptr<const BatchPlan>;
  using Task = std::packaged_task<Plan()>;
  using Key = std::pair<std::int64_t, std::int64_t>;  // epoch and first place
  // Adds the plan to `plans_` and returns the task that makes it. The task sets `busy` to false before a
  // waiting caller gets the plan. So this caller can call make_ahead() at once.
  std::shared_ptr<Task> add(const Key& key, std::atomic<bool>* busy);

  const Make make_;
  std::mutex mutex_;
  std::map<Key, std::shared_future<Plan>> plans_;
  std::atomic<bool> busy_ahead_ = false;
  std::jthread ahead_;  // the last member: it uses the others
};

}  // namespace muster
