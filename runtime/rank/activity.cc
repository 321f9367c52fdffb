#include "runtime/rank/activity.h"

#include <mutex>
#include <utility>

namespace muster {
namespace {

struct Activity {
  std::mutex mutex;
  std::string part;
  std::string what;
};

Activity& now() {
  static auto* one = new Activity;  // never destroyed: a Job in static storage may outlive it otherwise
  return *one;
}

}  // namespace

void set_model_part(std::string part) {
  const std::scoped_lock lock(now().mutex);
  now().part = std::move(part);
}

std::string model_part() {
  const std::scoped_lock lock(now().mutex);
  return now().part;
}

void set_activity(std::string what) {
  const std::scoped_lock lock(now().mutex);
  now().what = std::move(what);
}

std::string activity() {
  const std::scoped_lock lock(now().mutex);
  return now().what;
}

}  // namespace muster
