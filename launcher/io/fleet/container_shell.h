// An agent that is the first process of a container: its stdin and stdout by the engine's multiplexed stream.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launcher/io/fleet/docker_engine.h"
#include "launcher/io/fleet/host_shell.h"

namespace muster::launcher {

class ContainerShell final : public HostShell {
 public:
  // Starts a container that has been made. Errors are those of DockerEngine, or kInvalidArgument, with what
  // the engine says of the start; the container is still there then. `errors` as in HostShell.
  static awaitable<Expected<std::shared_ptr<ContainerShell>>> start(DockerEngine& engine, std::string id,
                                                                    std::string errors);
  ~ContainerShell() override;

  awaitable<Expected<int>> ended(TimePoint deadline) override;
  void terminate() override;
  const std::string& id() const;
  // To be called when its agent is lost: a busy engine may tell of the container's end seconds later.
  void seems_to_end();
  // A process in the container has been killed for want of memory.
  void ran_out_of_memory();
  bool out_of_memory() const override;
  std::string last_error_line() const override;

  // Keeps itself alive while the engine's streams are open, and the engine tells of no end.
  struct Container;

 private:
  ContainerShell(Streams& streams, std::shared_ptr<Container> container);

  std::shared_ptr<Container> container_;
};

}  // namespace muster::launcher
