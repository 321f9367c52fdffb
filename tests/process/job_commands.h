// For tests of commands about jobs (`launch ps`, `logs`, `clean`): real jobs in a log directory of the test.
#pragma once

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/launch_run.h"

namespace muster {

using Words = std::vector<std::string>;

struct Printed {
  int exit_code;
  std::string out;
  std::string err;
};

class JobCommands : public testing::Test {
 protected:
  // The words that start a job in this log directory.
  Words started(const Words& words) const {
    Words all{"--log-dir", logs};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  std::map<std::string, std::string> environment() const { return {{"MUSTER_LOG_DIR", logs}}; }
  Printed command(const Words& words) const {
    LaunchRun run(words, environment());
    const int exit_code = run.exit_code();
    return {exit_code, run.out(), run.err()};
  }
  nlohmann::json jobs() const { return nlohmann::json::parse(command({"ps", "--json"}).out); }
  std::string only_job() const { return jobs().at(0).at("job_id"); }

  ScratchDirectory scratch;
  const std::string logs = scratch / "logs";
};

}  // namespace muster
