// Debian's docker-registry on the loopback of a host, for images that an Engine there pushes and pulls.
//
// It speaks plain HTTP, which an engine takes from loopback. It ends with the Registry, its images with the
// directory, which is made. Registries of a test have different ports. Root only.
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
  // With a login, nobody pulls and pushes without it.
  Registry(const Engine& engine, const std::string& directory,
           const std::optional<Login>& login = std::nullopt);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry();

  std::string address() const;  // 127.0.0.1:PORT
  // Of an image in this registry, as docker takes it.
  std::string name(const std::string& image) const { return address() + "/" + image; }
  // `docker login`: its exit code. The engine's home() keeps what was right.
  int log_in(const Login& login, std::string* output = nullptr) const;
  int log_out() const;
  // Moves an image of the engine's here: pulling name(image) brings it back. Nobody is logged in afterwards.
  void take(const std::string& image) const;

 private:
  const Engine& engine_;
  std::optional<Login> login_;
  int port_;
  pid_t pid_ = 0;
};

}  // namespace muster::docker
