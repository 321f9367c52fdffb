// What is done next to start an agent on a host, by what its host shells have said so far.
//
// A host that lacks the agent or its container's image gets it once; one whose sshd takes no more connections
// just now is tried again a little later. Pure: the caller runs the shells, waits, and throws the dice.
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
  struct Start {       // runs the start script
    Duration after{};  // so long from now
  };
  enum class Missing { kAgent, kImage };
  struct Bring {  // to the host
    Missing what = Missing::kAgent;
  };
  struct Speak {  // the agent runs there
    AgentGreeting agent;
  };
  struct GiveUp {
    std::string why;       // in one line, with what to do
    bool refused = false;  // the same would be refused again, and the job end for that
  };
  using Step = std::variant<Start, Bring, Speak, GiveUp>;

  // `machine`: what the agent that can be delivered runs on, as `uname -m` says it. `needed`: the job cannot
  // do without this host.
  HostStart(RemoteOptions options, Host host, std::string machine, bool needed)
      : options_(std::move(options)), host_(std::move(host)), machine_(std::move(machine)), needed_(needed) {}

  Step first() const;
  // A line of what the start script's shell prints. Nothing: it is of the user's own start-up files.
  std::optional<Step> on_line(std::string_view line);
  struct Failure {
    std::string what;
    std::optional<int> exit_code{};  // of the shell, if it has ended
    std::string last_line{};         // of its stderr
    bool refused = false;            // as of GiveUp
  };
  // The start, or what was to be brought, has failed. `random`: as of pause_before_next_try().
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
