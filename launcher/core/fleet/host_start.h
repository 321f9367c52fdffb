// Decides the next step to start an agent on a host, from what its host shells have printed so far.
//
// Delivers a missing agent or container image once. Retries after a pause if the host's sshd accepts no more
// connections for the moment. Pure: the caller runs the shells, waits, and provides the random numbers.
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

  // `machine`: the platform of the agent that can be delivered, as `uname -m` prints it. `needed`: the job
  // cannot do without this host.
  HostStart(RemoteOptions options, Host host, std::string machine, bool needed)
      : options_(std::move(options)), host_(std::move(host)), machine_(std::move(machine)), needed_(needed) {}

  Step first() const;
  // Handles a line of the start script's shell. Returns nullopt if the user's start-up files printed the
  // line.
  std::optional<Step> on_line(std::string_view line);
  struct Failure {
    std::string what;
    std::optional<int> exit_code{};  // the shell's, if it has ended
    std::string last_line{};         // the last line of its stderr
    bool refused = false;            // as in GiveUp
  };
  // Call when the start or the delivery has failed. `random`: as for pause_before_next_try().
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
