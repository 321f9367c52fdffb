// How far a pull of an image has got, layer by layer. During the pull, the Docker Engine sends lines about
// the layers. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace muster::launcher {

class PullProgress {
 public:
  // Call with each line that the engine sends. Lines that are not JSON are ignored.
  void hear(std::string_view line);
  // Returns why the pull failed. Returns an empty text if it did not fail.
  const std::string& error() const { return error_; }
  // "3 of 5 layers, 120 of 300 MB"
  std::string text() const;

 private:
  struct Layer {
    bool done = false;
    std::int64_t got = 0;  // bytes
    std::int64_t size = 0;
  };
  std::map<std::string, Layer> layers_;
  std::string error_;
};

}  // namespace muster::launcher
