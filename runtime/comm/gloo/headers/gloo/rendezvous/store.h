// Replaces Gloo's header gloo/rendezvous/store.h, because no build of torch contains that header. This header
// declares the functions that ProcessGroupGloo::GlooStore overrides. Objects of that class are created only
// by code in libtorch_cpu. So the functions can have any order here.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace gloo::rendezvous {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};

}  // namespace gloo::rendezvous
