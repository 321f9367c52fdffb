// Hosts as those of tests/hosts, and a Docker engine on the first of them, where `launch` runs too.
//
// What a test makes below std::filesystem::temp_directory_path() while a Lab lives is seen by the hosts
// and by the engine under the same path, so that containers can mount it. Root only.
#pragma once

#include "tests/docker/engine.h"
#include "tests/hosts/lab.h"

namespace muster::docker {

class Lab {
 public:
  explicit Lab(int count = 1) : hosts(count) {}

  hosts::Lab hosts;
  const hosts::Host& host = hosts.head();
  Engine engine{host, hosts.shared() + "/docker"};
};

}  // namespace muster::docker
