// What is done to a job over the hosts of a Lab: a fault of some kind at a host, for a while, and its end.
//
// A plan follows from its seed; what it hits follows from what runs there at that moment. One thread: faults
// end in end_due(), which is to be called often.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "tests/hosts/lab.h"

namespace muster::hosts {

enum class Kind {
  kKillWorker,
  kKillAgent,
  kStopAgent,   // and continue it
  kCut,         // the host from all others
  kCutFrom,     // nobody hears the host, which hears all
  kCutTo,       // the host does not hear the launcher
  kCutPair,     // the host from the next one; the launcher reaches both
  kFlap,        // cuts, one after the other
  kKillClient,  // the host shell's process beside the launcher
  kKillServer,  // sshd's process for it on the host
  kCount,
};
const char* name_of(Kind kind);

struct Disturbance {
  Kind kind{};
  int host = 0;
  std::chrono::milliseconds pause{};   // since the one before
  std::chrono::milliseconds length{};  // of those that end
};

// `hosts`: how many take part. Host 0, where the launcher is, is not cut off.
Disturbance draw(std::mt19937_64& random, int hosts);
std::string text_of(const Disturbance& disturbance);

class Disturber {
 public:
  // `hosts`: as draw() was told.
  Disturber(Lab& lab, int hosts) : lab_(lab), hosts_(hosts) {}
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;
  ~Disturber() { end_all(); }

  // Whether there was something to hit.
  bool begin(const Disturbance& what);
  void end_due();
  void end_all();
  bool over() const { return cuts_.empty() && stopped_.empty(); }

 private:
  struct Cut {
    Disturbance what;
    TimePoint from, until;
    bool made = false;
  };

  std::vector<pid_t> targets(const Disturbance& what) const;
  void make_cuts();

  Lab& lab_;
  int hosts_;
  std::vector<Cut> cuts_;
  std::multimap<TimePoint, pid_t> stopped_;  // until when
};

}  // namespace muster::hosts
