// A Docker engine of the test's own on a host: dockerd with its own containerd, data, networks and packet
// filter. The machine's own engine, its files and networks are not touched.
//
// The host has a /run of its own, like the hosts of hosts::Lab, and sees `directory` at the same path.
// Containers reach only each other and the host; a DNS query for any other name gets a negative answer. All
// processes, mounts and cgroups end with the Engine, links and filter rules with the host. Root only.
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/hosts/host.h"

namespace muster::docker {

// Why this machine cannot have an Engine with images and a registry; empty: it can.
std::string why_no_engine();

class Engine {
 public:
  // Creates the directory and starts the engine. The engine is ready when this returns.
  Engine(const hosts::Host& host, std::string directory);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  const hosts::Host& host() const { return host_; }
  std::string socket() const { return directory_ + "/docker.sock"; }
  // The HOME of docker(): its .docker/config.json has the credentials of `docker login`.
  std::string home() const { return directory_ + "/home"; }
  // The variables for programs that use the engine: DOCKER_HOST and HOME.
  std::map<std::string, std::string> environment() const;
  // Lets `docker` without DOCKER_HOST find the engine on this host, for example over ssh.
  void listen_as_default() const;
  // Lets this user talk to the engine until the next start. By default only root and the group docker may.
  void admit(uid_t user) const;
  std::string log() const;  // dockerd's log

  // Runs `docker WORDS...` on the host; returns its exit code. Its stdout and stderr go to `output`, or to
  // the test's own if that is null.
  int docker(const std::vector<std::string>& words, std::string* output = nullptr) const;
  // The same for a command that must succeed. Returns its stdout without trailing line ends.
  std::string printed_by(const std::vector<std::string>& words) const;

  // Loads an image of tests/docker/image.h under its name.
  void load(const std::string& image) const;

  // The names of all containers, running or not, of user-defined networks, and of volumes.
  std::vector<std::string> containers() const;
  std::vector<std::string> networks() const;
  std::vector<std::string> volumes() const;
  // The processes in one container, by name or id, or in all containers, as the test sees them. Works without
  // dockerd.
  std::vector<pid_t> processes(const std::string& container = "") const;

  // Ends dockerd by SIGTERM; it ends its containers first. Takes 10 s for containers that ignore SIGTERM,
  // such as a first process without a handler.
  void stop();
  // Ends only dockerd, by SIGKILL. Containers go on; the next start() ends them (live-restore is off).
  void kill();
  void start();  // ready when it returns

  // Drops all packets of a container in one direction, without an error for the sender. kSent uses the
  // container's current addresses. False: the container does not run, or has no network.
  enum class Direction { kSent, kHeard };
  bool cut_one_way(const std::string& container, Direction direction = Direction::kSent) const;
  void heal() const;  // ends all cuts

 private:
  std::vector<std::string> command(const std::vector<std::string>& words) const;
  std::vector<pid_t> daemons() const;
  std::vector<std::string> list(const std::vector<std::string>& words) const;
  // The output of `docker inspect`, without trailing line ends; empty if the container does not exist.
  std::string inspected(const std::string& container, const std::string& format) const;
  bool change_filter_inside(const std::string& container, const std::vector<std::string>& rule) const;
  bool answers() const;
  void wait_for_networks_at_rest() const;
  void end_dockerd(int signal);
  void end_processes();
  void unmount() const;

  const hosts::Host& host_;
  std::string directory_, group_;
  pid_t dockerd_ = 0, names_ = 0;
};

}  // namespace muster::docker
