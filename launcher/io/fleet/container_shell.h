// The host shell of an agent that is the first process of a container. The engine's multiplexed stream
// carries the agent's stdin, stdout and stderr.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launcher/io/fleet/docker_engine.h"
#include "launcher/io/fleet/host_shell.h"

namespace muster::launcher {

class ContainerShell final : public HostShell {
 public:
  // Starts a container that has been created. Returns an error of DockerEngine if the engine cannot be asked.
  // Returns kInvalidArgument, with the engine's message, if the engine refuses the start. After an error the
  // container still exists. `errors` has the same meaning as in HostShell.
  static awaitable<Expected<std::shared_ptr<ContainerShell>>> start(DockerEngine& engine, std::string id,
                                                                    std::string errors);
  ~ContainerShell() override;

  awaitable<Expected<int>> ended(TimePoint deadline) override;
  void terminate() override;
  const std::string& id() const;
  bool has_ended() const;
  // Call this when the agent is lost, because a busy engine may report the end of the container only seconds
  // later.
  void seems_to_end();
  // Call this when the engine says that the kernel killed a process in the container for lack of memory.
  void ran_out_of_memory();
  bool out_of_memory() const override;
  std::string last_error_line() const override;

  // Lives until the streams of the engine have closed, and the engine has reported that the container ended.
  struct Container;

 private:
  ContainerShell(Streams& streams, std::shared_ptr<Container> container);

  std::shared_ptr<Container> container_;
};

}  // namespace muster::launcher
