#include "runtime/rank/training_loop.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

namespace muster {

namespace {

struct InHand {
  TrainingLoop loop;
  std::function<std::string()> describe;
  std::vector<const void*> memory{};
};
thread_local InHand in_hand;
std::atomic<bool> was_taken = false;

struct Listeners {
  std::mutex mutex;
  std::map<const void*, std::function<void(const TrainingLoop&)>> of;
};
Listeners& listeners() {
  static auto* all = new Listeners;  // never destroyed: models may outlive all static objects
  return *all;
}

}  // namespace

std::uint64_t new_loader_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

void take_batch(const TrainingLoop& loop, std::function<std::string()> describe,
                std::vector<const void*> memory) {
  in_hand = {loop, std::move(describe), std::move(memory)};
  was_taken.store(true, std::memory_order_relaxed);
}

bool batch_was_taken() {
  return was_taken.load(std::memory_order_relaxed);
}

void put_batch_back(std::uint64_t loader) {
  if (in_hand.loop.loader == loader) in_hand = {};
}

void forget_batch(std::uint64_t loader) {
  if (in_hand.loop.loader != loader) return;
  in_hand.loop = {};
  in_hand.memory.clear();
  if (std::uncaught_exceptions() == 0)
    in_hand.describe = nullptr;
  else
    in_hand.describe = [text = in_hand.describe()] { return text; };
}

void end_loop(const TrainingLoop& loop) {
  const std::lock_guard lock(listeners().mutex);
  for (const auto& [owner, listener] : listeners().of) listener(loop);
}

std::string batch_in_hand() {
  return in_hand.describe ? in_hand.describe() : "";
}

bool is_in_hand(const void* memory) {
  return std::ranges::find(in_hand.memory, memory) != in_hand.memory.end();
}

TrainingLoop current_loop() {
  return in_hand.loop;
}

void listen_to_loop_ends(const void* owner, std::function<void(const TrainingLoop&)> listener) {
  const std::lock_guard lock(listeners().mutex);
  listeners().of[owner] = std::move(listener);
}

void stop_listening_to_loop_ends(const void* owner) {
  const std::lock_guard lock(listeners().mutex);
  listeners().of.erase(owner);
}

}  // namespace muster
