// The flags of the examples: stores their values, ends the process for a bad flag, and adds the flags that
// several examples share.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/common/fail_at.h"

namespace CLI {
class App;
}

struct PipelineFlags {
  int stages = 0;  // 0: as many as there are ranks
  std::string schedule = "1F1B";
  std::string split = "uniform";
  int microbatches = 4;
  bool recompute = false;
};

// A program's flags. parse_or_exit() writes their values into the program's variables; the values before it
// are the defaults.
class Flags {
 public:
  Flags(const std::string& program, const std::string& what);
  ~Flags();

  // Each of the next functions adds a flag; `what` is its text in --help.
  // A number from `least` to `most`: int, std::int64_t, std::uint64_t or double.
  template <class Number>
  void number(const char* name, Number& value, const char* what, double least,
              double most = std::numeric_limits<double>::infinity());
  void text(const char* name, std::string& value, const char* what);
  void required_text(const char* name, std::string& value, const char* what);
  // One of `values`.
  void choice(const char* name, std::string& value, const char* what, const std::vector<std::string>& values);
  // A flag without a value: giving it sets `value` to true.
  void yes(const char* name, bool& value, const char* what);
  // --fail-at RANK:STEP
  void fail_at(std::optional<FailAt>& value);
  void pipeline(PipelineFlags& values);

  // Exits with 0 for --help, and with 2 and one line on stderr for a bad flag.
  void parse_or_exit(int argc, char** argv);
  // Call after parse_or_exit(). Exits with 2 and one line on stderr unless `value` is a multiple of
  // `divisor`.
  void multiple_or_exit(const char* flag, std::int64_t value, const char* of, std::int64_t divisor) const;

 private:
  std::unique_ptr<CLI::App> app_;
};
