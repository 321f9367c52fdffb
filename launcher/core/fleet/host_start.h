// Starting an agent on a host takes several steps. This decides the next one, from the text that the host
// shells have printed so far.
//
// If the agent or the container image is missing on the host, it is delivered once. If the host's sshd
// accepts no more connections for the moment, this tries again after a pause. Pure: the caller runs the
// shells, waits, and provides the random numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/clock.h"
#include "launcher/core/fleet/host_script.h"

namespace muster::launcher {

class HostStart {
 public:
  struct Start {       // run the start script
    Duration after{};  // after this time
  };
  enum class Missing { kAgent, kImage };
  struct Bring {  // deliver to the host
    Missing what = Missing::kAgent;
  };
  struct Speak {  // the agent runs there; begin the conversation
    AgentGreeting agent;
  };
  struct GiveUp {
    std::string why;       // one line, with advice
    bool refused = false;  // a retry would be refused, too; the job ends
  };
  using Step = std::variant<Start, Bring, Speak, GiveUp>;

  // `machine` is the platform of the agent that can be delivered, as `uname -m` prints it. `needed` says that
  // the job cannot do without this host.
  HostStart(RemoteOptions options, Host host, std::string machine, bool needed)
      : options_(std::move(options)), host_(std::move(host)), machine_(std::move(machine)), needed_(needed) {}

  Step first() const;
  // Handles a line that the shell of the start script has printed. Returns nullopt if it comes from the
  // user's start-up files.
  std::optional<Step> on_line(std::string_view line);
  struct Failure {
    std::string what;
    std::optional<int> exit_code{};  // the shell's, if it has ended
    std::string last_line{};         // the last line of its stderr
    bool refused = false;            // as in GiveUp
  };
  // Call when the start or the delivery has failed. `random` has the same meaning as for
  // pause_before_next_try().
  Step on_failure(const Failure& failure, double random);
  Step on_brought(Missing what);

 private:
  RemoteOptions options_;
  Host host_;
  std::string machine_;
  bool needed_;
  bool delivered_ = false;
  bool pulled_ = false;
  int busy_count_ = 0;
};

}  // namespace muster::launcher
