// The progress of an image's layers, from the lines that the Docker Engine sends during a pull. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace muster::launcher {

class PullProgress {
 public:
  // Call with each line from the engine. Ignores lines that are not JSON.
  void hear(std::string_view line);
  // Why the pull failed; empty if it did not.
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
