// Sweeps in a directory of the test: their words, and how they end.
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/agent_test_launcher.h"
#include "tests/process/job_commands.h"

namespace muster {

class LaunchSweep : public testing::Test {
 protected:
  Words with(Words first, const Words& more) const {
    first.insert(first.end(), more.begin(), more.end());
    return first;
  }
  // A sweep of `script`, a shell script, whose parameters are x and, if it names it, y.
  Words sweep_of(const std::string& script, const Words& flags) const {
    Words words{"sweep", "run", "--sweep-dir", directory, "--metric", "loss", "--parallel", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    return with(words, {"--", "sh", "-c", script, "trial", "{x}"});
  }
  Printed launch(const Words& words) const {
    LaunchRun run(words);
    const int exit_code = run.exit_code();
    return {exit_code, run.out(), run.err()};
  }
  nlohmann::json trials() const {
    return nlohmann::json::parse(launch({"sweep", "status", directory, "--json"}).out).at("trials");
  }
  std::vector<std::string> states() const {
    std::vector<std::string> all;
    for (const nlohmann::json& trial : trials()) all.push_back(trial.at("state"));
    return all;
  }

  nlohmann::json shown(int trial) const {
    return nlohmann::json::parse(launch({"sweep", "show", std::to_string(trial), directory, "--json"}).out);
  }
  // Waits for a file that a trial makes, or makes one for which a trial waits.
  std::string file_of(int trial, const std::string& name) const {
    return fmt::format("{}/trials/{:04}/{}", directory, trial, name);
  }
  bool came(int trial, const std::string& name) const {
    return eventually([&] { return std::filesystem::exists(file_of(trial, name)); });
  }
  void make(int trial, const std::string& name) const { std::ofstream(file_of(trial, name)) << ""; }

  ScratchDirectory scratch;
  const std::string directory = scratch / "sweep";
};

}  // namespace muster
