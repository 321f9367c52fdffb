// A Docker engine of the test's own on a host: dockerd with its own containerd, data, networks and packet
// filter. The machine's own engine, its files and networks are not touched.
//
// The host has a /run of its own, as those of hosts::Lab, and sees `directory` by the same path. Containers
// reach each other and the host, and nothing else: a query for any other name is answered, by no. All
// processes, mounts and cgroups end with the Engine, links and filter rules with the host. Root only.
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/hosts/host.h"

namespace muster::docker {

// Why this machine can have no Engine with images and a registry; empty: it can.
std::string why_no_engine();

class Engine {
 public:
  // Makes the directory and starts. Ready when it returns.
  Engine(const hosts::Host& host, std::string directory);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  const hosts::Host& host() const { return host_; }
  std::string socket() const { return directory_ + "/docker.sock"; }
  // Of docker(): ~/.docker/config.json keeps what it logged in with.
  std::string home() const { return directory_ + "/home"; }
  // What a program finds the engine by: DOCKER_HOST and HOME.
  std::map<std::string, std::string> environment() const;
  // `docker` without DOCKER_HOST finds the engine on this host too, also when it comes by ssh.
  void listen_as_default() const;
  // This user may speak to the engine, until the next start; else root and the group docker may.
  void admit(uid_t user) const;
  std::string log() const;  // what dockerd has said

  // Runs `docker WORDS...` on the host: its exit code. What it prints to both streams goes to `output` when
  // that is given, and else to the test's own.
  int docker(const std::vector<std::string>& words, std::string* output = nullptr) const;
  // The same for what has to succeed: what it printed to stdout, without the line ends after it.
  std::string printed_by(const std::vector<std::string>& words) const;

  // One of tests/docker/image.h, as an image of that name.
  void load(const std::string& image) const;

  // Names of all containers, running or not, of networks that were made, and of volumes.
  std::vector<std::string> containers() const;
  std::vector<std::string> networks() const;
  std::vector<std::string> volumes() const;
  // Processes in one container, named or not, or in all, as the test sees them; also while dockerd is gone.
  std::vector<pid_t> processes(const std::string& container = "") const;

  // dockerd ends by SIGTERM, and its containers before it: 10 s for those that do not obey SIGTERM, such as a
  // first process without a handler.
  void stop();
  // dockerd alone ends by SIGKILL. Containers go on; the next start() ends them (live-restore is off).
  void kill();
  void start();  // ready when it returns

  // Drops packets of a container in one direction, to and from everybody; no error tells the sender so. kSent
  // is about the addresses that the container has now. False: it does not run, or has no network.
  enum class Direction { kSent, kHeard };
  bool cut_one_way(const std::string& container, Direction direction = Direction::kSent) const;
  void heal() const;  // ends all cuts

 private:
  std::vector<std::string> command(const std::vector<std::string>& words) const;
  std::vector<pid_t> daemons() const;
  std::vector<std::string> list(const std::vector<std::string>& words) const;
  // What `docker inspect` prints of it, without the line ends; empty too if there is no such container.
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
