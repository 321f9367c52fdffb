// Hosts as those of tests/hosts, and a Docker engine on the first of them, where `launch` runs too.
//
// What a test makes below std::filesystem::temp_directory_path() while a Lab lives is seen by the hosts
// and by the engine under the same path, so that containers can mount it. Other hosts may be given an Engine
// too; their containers reach those of this host with `--network host` only. Root only.
#pragma once

#include <map>
#include <string>

#include "tests/docker/engine.h"
#include "tests/hosts/lab.h"

namespace muster::docker {

class Lab {
 public:
  explicit Lab(int count = 1) : hosts(count) {}

  // What `launch` on the first host finds in its environment: DOCKER_HOST and the engine's HOME, USER and
  // TMPDIR.
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
