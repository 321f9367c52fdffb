// Launchers whose job loses a rank, in turn, in one run: how long until it is acted on, all are gone, and the
// next attempt is where the ranks' stamps say (stamp.h); how long the first start took, and what memory it
// has.
//
// Blocks while it measures; each job is over when its times are known.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/measure.h"

namespace muster::bench {

struct Times {           // milliseconds
  double started = 0;    // from the launch to the last rank's stamp
  double acted = 0;      // from the death of a rank until another is told to stop
  double gone = 0;       // from then until all have ended
  double recovered = 0;  // from the death to the last stamp of the next attempt
  double memory_mb = 0;  // of the first attempt, the sum of proportional set sizes
};

struct Contender {
  std::string name;
  std::vector<Command> commands;
  int one_run_of = 1;  // slow contenders run in every so many rounds only
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

// A table for each column. `stamps` is the file that the contenders' ranks were told of.
std::vector<Table> compare(const std::vector<Contender>& all, const std::vector<Column>& columns, int ranks,
                           int runs, const std::string& stamps);

}  // namespace muster::bench
