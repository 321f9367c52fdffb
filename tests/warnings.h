// Collects the runtime's warnings, line by line, instead of printing them to stderr.
//
// Active during its lifetime; one object at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.h"

namespace muster {

class Warnings {
 public:
  Warnings() {
    log::divert([this](std::string_view line) { lines_.emplace_back(line); });
  }
  ~Warnings() { log::divert({}); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }  // while no other thread warns

 private:
  std::vector<std::string> lines_;
};

}  // namespace muster
