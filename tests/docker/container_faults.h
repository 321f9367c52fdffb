// Injects faults into a job in containers, and ends the temporary ones.
//
// The seed determines a plan; the target is what runs at that moment. end_due() ends faults; call it often.
// Faults of the engine block until it answers again. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "tests/docker/engine.h"

namespace muster::docker {

enum class Kind {
  kKill,           // kills a container
  kRemove,         // removes a container by docker rm --force
  kPause,          // pauses a container, and continues it later
  kDisconnect,     // disconnects a container from the job's network, and connects it again later
  kUnheard,        // the container receives packets, but its own are dropped
  kDeaf,           // the container receives no packets
  kKillWorker,     // kills a worker in a container
  kStopWorker,     // stops a worker, and never continues it
  kKillEngine,     // kills only dockerd, and starts it again
  kRestartEngine,  // stops dockerd, which ends its containers first, and starts it again
  kKillLauncher,   // kills the launcher; the caller does this, and starts another launcher
  kCount,
};

struct Fault {
  Kind kind{};
  int node = 0;
  std::chrono::milliseconds pause{};   // after the previous fault
  std::chrono::milliseconds length{};  // of a temporary fault
};

Fault draw(std::mt19937_64& random, int nodes);
std::string text_of(const Fault& fault);
// Whether the fault loses packets of a running container.
constexpr bool cuts_network(Kind kind) {
  return kind == Kind::kDisconnect || kind == Kind::kUnheard || kind == Kind::kDeaf;
}

class Faults {
 public:
  // `worker`: the name of the workers' processes.
  Faults(Engine& engine, std::string worker) : engine_(engine), worker_(std::move(worker)) {}
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults() { end_all(); }

  // False if there was nothing to hit.
  bool begin(const Fault& fault);
  void end_due();
  void end_all();
  bool over() const { return ends_.empty(); }

 private:
  // Whether docker succeeded.
  bool docker(const std::vector<std::string>& words) const;
  bool hit(const Fault& fault, const std::string& container);
  bool signal_worker(const std::string& container, int number) const;

  Engine& engine_;
  std::string worker_;
  std::vector<std::pair<TimePoint, std::function<void()>>>
      ends_;  // the ends of temporary faults, with their times
};

}  // namespace muster::docker
