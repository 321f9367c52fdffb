// Hosts of tests/hosts, with a Docker engine on the first host, where `launch` runs too.
//
// The hosts and the engine see files below std::filesystem::temp_directory_path() at the same path, so that
// containers can mount them. A test may give other hosts an Engine too; their containers reach those of this
// host only with `--network host`. Root only.
#pragma once

#include <map>
#include <string>

#include "tests/docker/engine.h"
#include "tests/hosts/lab.h"

namespace muster::docker {

class Lab {
 public:
  explicit Lab(int count = 1) : hosts(count) {}

  // The environment of `launch` on the first host: DOCKER_HOST and the engine's HOME, USER and TMPDIR.
  std::map<std::string, std::string> environment() const {
    auto all = engine.environment();
    all.merge(hosts.environment(0));
    return all;
  }

  hosts::Lab hosts;
  const hosts::Host& host = hosts.head();
  Engine engine{host, hosts.shared() + "/docker"};
};

}  // namespace muster::docker
