// Keeps the plans of the epochs that are in use. Each plan is made only once. A separate thread makes the
// plan of the next epoch ahead of time.
//
// A plan begins at the start of an epoch, or at a place in it, and ends at the end of the epoch. Any thread
// can call the functions. They hold no lock while they make a plan. So if a plan takes long to make, only
// those callers wait that need it.
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

  // Returns the plan of the epoch. If the plan does not exist yet, get() makes it, or waits for the thread
  // that is making it. It also removes the plans of distant epochs. If `make` throws, all callers that wait
  // get the exception. A later call tries to make the plan again.
  std::shared_ptr<const BatchPlan> get(std::int64_t epoch, std::int64_t first);
  // Returns the plan if it has already been made. Otherwise returns null. This function never waits.
  std::shared_ptr<const BatchPlan> made(std::int64_t epoch, std::int64_t first);
  // Starts a thread that makes the plan of a whole epoch. Does nothing if that plan exists, or if such a
  // thread is running.
  void make_ahead(std::int64_t epoch);

 private:
  using Plan = std::shared_ptr<const BatchPlan>;
  using Task = std::packaged_task<Plan()>;
  using Key = std::pair<std::int64_t, std::int64_t>;  // epoch and first place
  // Adds the plan to `plans_`, and returns the task that makes the plan. The task sets `busy` to false before
  // it gives the plan to the callers that wait for it. So these callers can call make_ahead() at once.
  std::shared_ptr<Task> add(const Key& key, std::atomic<bool>* busy);

  const Make make_;
  std::mutex mutex_;
  std::map<Key, std::shared_future<Plan>> plans_;
  std::atomic<bool> busy_ahead_ = false;
  std::jthread ahead_;  // the last member: it uses the others
};

}  // namespace muster
