#include "runtime/data/order/epoch_plans.h"

#include <system_error>
#include <utility>

#include "common/base/clock.h"
#include "common/base/quiet_thread.h"

namespace muster {

// The caller must hold the lock. It must release the lock before it runs the task that this function returns.
std::shared_ptr<EpochPlans::Task> EpochPlans::add(const Key& key, std::atomic<bool>* busy) {
  auto task = std::make_shared<Task>([this, key, busy] {
    const auto idle = std::shared_ptr<void>(nullptr, [busy](void*) {
      if (busy != nullptr) *busy = false;
    });
    return std::make_shared<const BatchPlan>(make_(key.first, key.second));
  });
  plans_.emplace(key, task->get_future().share());
  return task;
}

std::shared_ptr<const BatchPlan> EpochPlans::get(std::int64_t epoch, std::int64_t first) {
  const Key key(epoch, first);
  std::unique_lock lock(mutex_);
  std::shared_ptr<Task> mine;
  if (!plans_.contains(key)) mine = add(key, nullptr);
  // Removes the plans of distant epochs. The plans from the epoch before this one to two epochs after it are
  // kept, because workers can be in two epochs at once, and the plan of the next epoch is made ahead.
  std::erase_if(plans_, [epoch](const auto& other) {
    return other.first.first < epoch - 1 || other.first.first > epoch + 2;
  });
  const std::shared_future<Plan> plan = plans_.at(key);
  lock.unlock();
  if (mine) (*mine)();
  try {
    return plan.get();
  } catch (...) {
    lock.lock();
    plans_.erase(key);
    throw;
  }
}

std::shared_ptr<const BatchPlan> EpochPlans::made(std::int64_t epoch, std::int64_t first) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(Key(epoch, first));
  if (found == plans_.end() || found->second.wait_for(Seconds(0)) != std::future_status::ready)
    return nullptr;
  try {
    return found->second.get();
  } catch (...) {
    return nullptr;
  }
}

void EpochPlans::make_ahead(std::int64_t epoch) {
  const Key key(epoch, 0);
  const std::lock_guard lock(mutex_);
  if (plans_.contains(key) || busy_ahead_.exchange(true)) return;
  const std::shared_ptr<Task> task = add(key, &busy_ahead_);
  try {
    ahead_ = start_quiet_thread("muster-order", [task](const std::stop_token&) { (*task)(); });
  } catch (const std::system_error&) {  // no thread started: get() makes the plan when it is needed
    plans_.erase(key);
    busy_ahead_ = false;
  }
}

}  // namespace muster
