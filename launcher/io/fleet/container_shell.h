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
  // Starts a container that has been created. Errors: those of DockerEngine; kInvalidArgument, with the
  // engine's message, if it refuses the start. After an error the container still exists. `errors` as in
  // HostShell.
  static awaitable<Expected<std::shared_ptr<ContainerShell>>> start(DockerEngine& engine, std::string id,
                                                                    std::string errors);
  ~ContainerShell() override;

  awaitable<Expected<int>> ended(TimePoint deadline) override;
  void terminate() override;
  const std::string& id() const;
  bool has_ended() const;
  // Call this when the agent is lost: a busy engine may report the container's end seconds later.
  void seems_to_end();
  // Call this when the engine says that the kernel killed a process in the container for lack of memory.
  void ran_out_of_memory();
  bool out_of_memory() const override;
  std::string last_error_line() const override;

  // Lives until the engine's streams have closed and the engine has reported the container's end.
  struct Container;

 private:
  ContainerShell(Streams& streams, std::shared_ptr<Container> container);

  std::shared_ptr<Container> container_;
};

}  // namespace muster::launcher
