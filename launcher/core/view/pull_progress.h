// How far an image's layers have come, by the lines that the Docker Engine sends while it pulls them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace muster::launcher {

class PullProgress {
 public:
  // A line of the engine's: JSON, or nothing that counts.
  void hear(std::string_view line);
  // Why the pull has failed; empty: it has not.
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
