// The flags of the examples: where their values go, how a flag that cannot be used ends the process, and what
// several examples have in common.
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

// A program's flags. Their values stay where the program has them, and are read by parse_or_exit(); what they
// are before it are the defaults.
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
  // It takes no value: where it is given, `value` becomes true.
  void yes(const char* name, bool& value, const char* what);
  // --fail-at RANK:STEP
  void fail_at(std::optional<FailAt>& value);
  void pipeline(PipelineFlags& values);

  // Ends the process for --help (0) and for a flag that cannot be used (one line on stderr, 2).
  void parse_or_exit(int argc, char** argv);
  // After it: ends the process in the same way, unless the value of `flag` is a multiple of that of `of`.
  void multiple_or_exit(const char* flag, std::int64_t value, const char* of, std::int64_t divisor) const;

 private:
  std::unique_ptr<CLI::App> app_;
};
