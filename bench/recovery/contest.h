// Launchers whose job loses a rank, in turn, in one run. Measures the time until the launcher reacts, until
// all ranks are gone, and until the next attempt has written its stamps (stamp.h); the time of the first
// start, and its memory.
//
// Blocks while it measures. Each job has ended when its times are known.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/measure.h"

namespace muster::bench {

struct Times {           // milliseconds
  double started = 0;    // from the launch to the last rank's stamp
  double acted = 0;      // from the death of a rank until another rank gets SIGTERM
  double gone = 0;       // from then until all have ended
  double recovered = 0;  // from the death to the last stamp of the next attempt
  double memory_mb = 0;  // the sum of proportional set sizes of the first attempt
};

struct Contender {
  std::string name;
  std::vector<Command> commands;
  int one_run_of = 1;  // slow contenders run only in every nth round
};

struct Table {
  std::string title;
  std::string unit;
  std::vector<Series> rows;
};

struct Column {
  std::string title;
  std::string unit;
  std::function<double(const Times&)> of;
};

// Makes a table per column. `stamps` is the file that the contenders' ranks write to.
std::vector<Table> compare(const std::vector<Contender>& all, const std::vector<Column>& columns, int ranks,
                           int runs, const std::string& stamps);

}  // namespace muster::bench
