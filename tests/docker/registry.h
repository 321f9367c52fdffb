// Debian's docker-registry on a host's loopback, for images that an Engine there pushes and pulls.
//
// Talks plain HTTP, which an engine accepts on loopback. Creates the directory for its images. The process
// ends with the Registry object. Registries of one test need different ports. Root only.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "tests/docker/engine.h"

namespace muster::docker {

struct Login {
  std::string user, password;
};

class Registry {
 public:
  // With a login, the registry requires it for pulls and pushes.
  Registry(const Engine& engine, const std::string& directory,
           const std::optional<Login>& login = std::nullopt);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry();

  std::string address() const;  // 127.0.0.1:PORT
  // The name of an image in this registry, for docker.
  std::string name(const std::string& image) const { return address() + "/" + image; }
  // Runs `docker login`; returns its exit code. The engine's home() keeps correct credentials.
  int log_in(const Login& login, std::string* output = nullptr) const;
  int log_out() const;
  // Moves an image of the engine to this registry; pulling name(image) brings it back. Logs out afterwards.
  void take(const std::string& image) const;

 private:
  const Engine& engine_;
  std::optional<Login> login_;
  int port_;
  pid_t pid_ = 0;
};

}  // namespace muster::docker
