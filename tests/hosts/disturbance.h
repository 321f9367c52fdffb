// Injects faults into a job over the hosts of a Lab, and ends the temporary ones.
//
// The seed determines a plan; the target is what runs on the host at that moment. end_due() ends faults; call
// it often. One thread.
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
  kStopAgent,   // stops an agent, and continues it later
  kCut,         // cuts the host off from all others
  kCutFrom,     // the host receives, but its packets are dropped
  kCutTo,       // the host does not receive the launcher's packets
  kCutPair,     // cuts the host off from the next one; the launcher reaches both
  kFlap,        // short cuts, one after the other
  kKillClient,  // the host shell's local process
  kKillServer,  // sshd's process for it on the host
  kCount,
};
const char* name_of(Kind kind);

struct Disturbance {
  Kind kind{};
  int host = 0;
  std::chrono::milliseconds pause{};   // after the previous fault
  std::chrono::milliseconds length{};  // of a temporary fault
};

// `hosts`: the number of hosts of the job. Host 0 has the launcher and is not cut off.
Disturbance draw(std::mt19937_64& random, int hosts);
std::string text_of(const Disturbance& disturbance);

class Disturber {
 public:
  // `hosts`: as for draw().
  Disturber(Lab& lab, int hosts) : lab_(lab), hosts_(hosts) {}
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;
  ~Disturber() { end_all(); }

  // False if there was nothing to hit.
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
  std::multimap<TimePoint, pid_t> stopped_;  // stopped processes, by the time when they continue
};

}  // namespace muster::hosts
