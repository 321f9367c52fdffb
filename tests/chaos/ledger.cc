#include "tests/chaos/ledger.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

#include "common/base/file.h"
#include "common/base/text.h"
#include "tests/chaos/samples.h"
#include "tests/invariants.h"

namespace muster::chaos {

namespace {

std::vector<Ledger::Line> read_lines(const std::string& path) {
  std::vector<Ledger::Line> lines;
  const auto text = read_file(path, 16 << 20);
  if (!text) return lines;
  for (const std::string_view line : split(*text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() < 3) continue;
    Ledger::Line read{.what = std::string(words[0]),
                      .number = parse_number<std::uint64_t>(words[1]).value_or(0),
                      .at = TimePoint(Duration(parse_number<std::int64_t>(words[2]).value_or(0))),
                      .more = {}};
    read.more.assign(words.begin() + 3, words.end());
    lines.push_back(std::move(read));
  }
  return lines;
}

const Ledger::Line* find(const std::vector<Ledger::Line>& lines, std::string_view what) {
  const auto found = std::ranges::find(lines, what, &Ledger::Line::what);
  return found == lines.end() ? nullptr : &*found;
}

}  // namespace

Ledger::Ledger(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    const auto parts = split(name, '.');
    if (parts.size() != 3 || parts[0] != "ledger") continue;
    const auto attempt = parse_number<std::uint64_t>(parts[1]);
    const auto rank = parse_number<int>(parts[2]);
    if (attempt && rank) attempts_[*attempt][*rank] = read_lines(entry.path());
  }
}

const Ledger::Ranks* Ledger::ranks_of(std::uint64_t attempt) const {
  const auto found = attempts_.find(attempt);
  return found == attempts_.end() ? nullptr : &found->second;
}

std::optional<TimePoint> Ledger::stopped(std::uint64_t attempt, int but) const {
  std::optional<TimePoint> first;
  const Ranks* ranks = ranks_of(attempt);
  if (ranks == nullptr) return first;
  for (const auto& [rank, lines] : *ranks) {
    const Line* line = find(lines, "term");
    if (rank != but && line != nullptr) first = std::min(first.value_or(line->at), line->at);
  }
  return first;
}

int Ledger::rank_count() const {
  return attempts_.empty() ? 0 : static_cast<int>(attempts_.rbegin()->second.size());
}

std::optional<TimePoint> Ledger::resumed_after(std::uint64_t attempt) const {
  const auto next = attempts_.upper_bound(attempt);
  if (next == attempts_.end()) return std::nullopt;
  std::optional<TimePoint> last;
  for (const auto& [rank, lines] : next->second) {
    const Line* line = find(lines, "resume");
    if (line == nullptr) return std::nullopt;
    last = std::max(last.value_or(line->at), line->at);
  }
  return last;
}

int Ledger::finished_count() const {
  if (attempts_.empty()) return 0;
  return static_cast<int>(std::ranges::count_if(
      attempts_.rbegin()->second, [](const auto& rank) { return find(rank.second, "finish") != nullptr; }));
}

std::string Ledger::hash() const {
  std::set<std::string> hashes;
  if (attempts_.empty()) return "";
  for (const auto& [rank, lines] : attempts_.rbegin()->second) {
    if (const Line* line = find(lines, "finish"); line != nullptr) hashes.insert(line->more.at(0));
  }
  return hashes.size() == 1 ? *hashes.begin() : fmt::format("{} different ones", hashes.size());
}

void Ledger::check(const CheckpointDirectory& checkpoints, std::uint64_t step_count) const {
  check_attempts();
  check_commits();
  const auto records = checkpoints.attempts();
  ASSERT_TRUE(records) << records.error().message();
  if (finished_count() > 0 && step_count > 0) check_samples(*records, step_count);
}

void Ledger::check_attempts() const {
  TimePoint last_of_earlier{};
  for (const auto& [attempt, ranks] : attempts_) {
    int early_count = 0;
    TimePoint last = last_of_earlier;
    for (const auto& [rank, lines] : ranks) {
      EXPECT_LE(std::ranges::count(lines, "start", &Line::what), 1)
          << "G2: rank " << rank << " of attempt " << attempt << " was started more than once";
      early_count += !lines.empty() && lines.front().at < last_of_earlier ? 1 : 0;
      if (!lines.empty()) last = std::max(last, lines.back().at);
    }
    invariants::attempts_do_not_overlap(0, early_count);
    last_of_earlier = last;
  }
}

void Ledger::check_commits() const {
  std::uint64_t committed = 0;
  for (const auto& [attempt, ranks] : attempts_) {
    std::set<std::uint64_t> resumed;
    std::uint64_t newest = committed;
    for (const auto& [rank, lines] : ranks) {
      for (const Line& line : lines) {
        if (line.what == "resume") resumed.insert(line.number);
        if (line.what == "committed") newest = std::max(newest, line.number);
      }
    }
    EXPECT_LE(resumed.size(), 1u) << "G3: ranks of attempt " << attempt << " resume from different steps";
    for (const std::uint64_t step : resumed) invariants::loses_no_commit(committed, step);
    committed = newest;
  }
}

void Ledger::check_samples(const std::vector<AttemptRecord>& records, std::uint64_t step_count) const {
  // Walks the chain backwards: the attempt counts up to `upto`, and began at its resume step.
  std::uint64_t upto = step_count;
  std::uint64_t attempt = attempts_.rbegin()->first;
  std::map<std::uint64_t, std::vector<std::uint64_t>> used;  // samples by step
  while (attempt != 0) {
    const auto record = std::ranges::find(records, Attempt(attempt), &AttemptRecord::attempt);
    ASSERT_TRUE(record != records.end()) << "G4: attempt " << attempt << " has no attempt file";
    const std::uint64_t from = record->resume ? record->resume->step : 0;
    const Ranks* ranks = ranks_of(attempt);
    for (const auto& [rank, lines] : ranks == nullptr ? Ranks{} : *ranks) {
      for (const Line& line : lines) {
        if (line.what != "step" || line.number <= from || line.number > upto) continue;
        for (const std::string& sample : line.more)
          used[line.number].push_back(parse_number<std::uint64_t>(sample).value_or(kSampleCount));
      }
    }
    upto = from;
    attempt = record->resume ? record->resume->attempt.value() : 0;
  }
  EXPECT_EQ(upto, 0u) << "G4: the history does not begin at the beginning";
  for (std::uint64_t step = 1; step <= step_count; ++step)
    invariants::same_samples(step, used[step], samples_of_step(step));
}

}  // namespace muster::chaos
