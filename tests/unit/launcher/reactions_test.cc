#include "launcher/core/job/reactions.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/text.h"

namespace muster::launcher {
namespace {

// The cells of the table below a heading of a document, row by row, without the table's own heading.
std::vector<std::vector<std::string>> table_under(const std::string& heading) {
  std::ifstream document(ARCHITECTURE_DOCUMENT);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  while (std::getline(document, line) && line != heading) {
  }
  while (std::getline(document, line) && !line.starts_with("## ")) {
    if (!line.starts_with("|") || line.starts_with("| ---") || line.starts_with("|---")) continue;
    std::vector<std::string> cells;
    line = line.substr(1, line.rfind('|') - 1);
    for (const std::string_view cell : split(line, '|')) {
      const std::size_t first = std::min(cell.find_first_not_of(' '), cell.size());
      cells.emplace_back(cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

constexpr std::string_view kReactionNames[] = {"undecided", "",     "note", "await",
                                               "dump",      "save", "stop", "kill"};

TEST(JobTable, EqualsThatOfTheDocument) {
  const auto rows = table_under("## The job's state machine");
  ASSERT_EQ(rows.size(), kOccurrenceCount + 1);
  ASSERT_EQ(rows[0].size(), kPhaseCount + 1);
  for (std::size_t occurrence = 0; occurrence < kOccurrenceCount; ++occurrence) {
    const auto& row = rows[occurrence + 1];
    ASSERT_EQ(row.size(), kPhaseCount + 1) << row[0];
    for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
      const auto reaction = static_cast<std::size_t>(kReactions.at(occurrence).at(phase));
      EXPECT_EQ(kReactionNames[reaction], row[phase + 1]) << row[0] << " while " << rows[0][phase + 1];
    }
  }
}

TEST(JobTable, DecidesEveryCell) {
  const auto cell = [](std::size_t occurrence, Phase phase) {
    return kReactions.at(occurrence).at(static_cast<std::size_t>(phase));
  };
  const auto runs = [](Phase phase) {
    return phase == Phase::kRunning || phase == Phase::kDumping || phase == Phase::kPreempting;
  };
  for (std::size_t occurrence = 0; occurrence < kOccurrenceCount; ++occurrence) {
    for (std::size_t at = 0; at < kPhaseCount; ++at) {
      const auto phase = static_cast<Phase>(at);
      const Reaction reaction = cell(occurrence, phase);
      SCOPED_TRACE(fmt::format("occurrence {}, phase {}", occurrence, at));
      const bool stops = phase == Phase::kStopping || phase == Phase::kLeaving;
      EXPECT_NE(reaction, Reaction::kUndecided);
      if (phase == Phase::kDone) EXPECT_EQ(reaction, Reaction::kIgnore);
      if (stops) EXPECT_NE(reaction, Reaction::kStop) << "it stops already";
      if (!stops) EXPECT_NE(reaction, Reaction::kKill) << "nothing stops yet";
      if (phase != Phase::kRunning) EXPECT_NE(reaction, Reaction::kAwait) << "it has no limit there";
      if (!runs(phase)) EXPECT_NE(reaction, Reaction::kDump) << "nothing runs";
      if (!runs(phase)) EXPECT_NE(reaction, Reaction::kPreempt) << "nothing runs";
    }
  }
  for (std::size_t at = 0; at < static_cast<std::size_t>(Phase::kDone); ++at) {
    for (const Occurrence always : {Occurrence::kLost, Occurrence::kInterrupted, Occurrence::kLeftoversGone})
      EXPECT_NE(cell(static_cast<std::size_t>(always), static_cast<Phase>(at)), Reaction::kIgnore) << at;
  }
}

}  // namespace
}  // namespace muster::launcher
