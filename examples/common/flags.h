// What the flags of the examples have in common: numbers with a least value, the planned loss of a worker, a
// pipeline, and how a flag that cannot be used ends the process.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "examples/common/fail_at.h"

// Adds --fail-at RANK:STEP.
void add_fail_at(CLI::App& app, std::optional<FailAt>& fail_at);

struct PipelineFlags {
  int stages = 0;  // 0: as many as there are ranks
  std::string schedule = "1F1B";
  std::string split = "uniform";
  int microbatches = 4;
  bool recompute = false;
};
void add_pipeline(CLI::App& app, PipelineFlags& flags);

// Adds a flag for a number that may not be less than `least`.
template <class Number>
void add_number(CLI::App& app, const char* name, Number& value, const char* what, std::int64_t least) {
  const auto check = [least](const std::string& text) {
    Number parsed{};
    const bool usable = CLI::detail::lexical_cast(text, parsed) && parsed >= static_cast<Number>(least);
    return usable ? "" : "'" + text + "' is not a number of at least " + std::to_string(least);
  };
  app.add_option(name, value, what)->capture_default_str()->check(check, "NUMBER");
}

// Ends the process for --help (0) and for a flag that cannot be used (one line on stderr, 2).
void parse_or_exit(CLI::App& app, int argc, char** argv);
