#include "runtime/comm/gloo/backend.h"

#include <sched.h>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace muster {

namespace {

// While an object of this class exists, all threads that this thread starts are modest: when they wake up,
// they do not interrupt a running thread. They wait for a free processor, or until the running thread's time
// is over.
//
// The reason is the following. A message from a faster rank wakes a thread of Gloo. This thread can do
// nothing until this rank has computed its own part, so it waits in a loop. Without this class, it would
// interrupt the thread that computes this part.
class StartsModestThreads {
 public:
  StartsModestThreads() {
    if (changed_) sched_setscheduler(0, SCHED_BATCH, &none_);
  }
  StartsModestThreads(const StartsModestThreads&) = delete;
  StartsModestThreads& operator=(const StartsModestThreads&) = delete;
  ~StartsModestThreads() {
    if (changed_) sched_setscheduler(0, SCHED_OTHER, &none_);
  }

 private:
  sched_param none_{};
  bool changed_ = sched_getscheduler(0) == SCHED_OTHER;  // another policy is the user's own
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const GlooSettings& settings) {
  using Gloo = c10d::ProcessGroupGloo;
  const StartsModestThreads modest;
  auto options = Gloo::Options::create(settings.timeout);
  options->group_name = settings.group_name;
  std::istringstream interfaces(settings.interfaces);
  for (std::string name; std::getline(interfaces, name, ',');)
    if (!name.empty()) options->devices.push_back(Gloo::createDeviceForInterface(name, settings.lazy));
  if (options->devices.empty())
    options->devices.push_back(settings.address.empty()
                                   ? Gloo::createDefaultDevice(settings.lazy)
                                   : Gloo::createDeviceForHostname(settings.address, settings.lazy));
  // Each device has two threads, as in torch. While one of them waits for other ranks, the other can run a
  // collective.
  options->threads = 2 * static_cast<int>(options->devices.size());
  return c10::make_intrusive<Gloo>(store, settings.rank, settings.world_size, std::move(options));
}

}  // namespace muster
