// What is done to a job in containers: a fault of some kind, for a while, and its end.
//
// A plan follows from its seed; what it hits follows from what runs there at that moment. One thread: faults
// end in end_due(), which is to be called often. Faults of the engine block until it is there again.
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
  kKill,           // a container
  kRemove,         // by docker rm --force
  kPause,          // and continue it
  kDisconnect,     // from the job's network, and connect it again
  kUnheard,        // nobody hears the container, which hears all
  kDeaf,           // it hears nobody
  kKillWorker,     // inside of it
  kStopWorker,     // and never continue it
  kKillEngine,     // dockerd alone, and start it again
  kRestartEngine,  // dockerd ends its containers first
  kKillLauncher,   // and start another one: not by Faults
  kCount,
};

struct Fault {
  Kind kind{};
  int node = 0;
  std::chrono::milliseconds pause{};   // since the one before
  std::chrono::milliseconds length{};  // of those that end
};

Fault draw(std::mt19937_64& random, int nodes);
std::string text_of(const Fault& fault);
// Whether packets of the container are lost while it runs.
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

  // Whether there was something to hit.
  bool begin(const Fault& fault);
  void end_due();
  void end_all();
  bool over() const { return ends_.empty(); }

 private:
  // Whether docker has done it.
  bool docker(const std::vector<std::string>& words) const;
  bool hit(const Fault& fault, const std::string& container);
  bool signal_worker(const std::string& container, int number) const;

  Engine& engine_;
  std::string worker_;
  std::vector<std::pair<TimePoint, std::function<void()>>> ends_;  // when, and how
};

}  // namespace muster::docker
