// The contents of a logger's files, before and after a training continues from a checkpoint.
//
// tests/python/logger_test.py runs the last of these tests with a directory of its own, and reads the
// directory with TensorBoard's own reader.
#include "runtime/train/run_records.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::int64_t> steps_in(const std::string& path) {
  std::vector<std::int64_t> steps;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
  return steps;
}

std::vector<std::string> event_files(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(directory))
    if (each.path().filename().string().starts_with("events.out.tfevents.")) names.push_back(each.path());
  std::ranges::sort(names);
  return names;
}

// The events of a file. Fails the test if a length or a checksum is wrong.
std::vector<std::string> events_in(const std::string& bytes) {
  const auto masked = [](std::string_view of) {
    const std::uint32_t crc = event_records::crc32c(of);
    return (crc >> 15 | crc << 17) + 0xA282EAD8U;
  };
  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t size = 0;
    std::uint32_t sum = 0;
    EXPECT_LE(at + 16, bytes.size());
    std::memcpy(&size, &bytes[at], sizeof size);
    std::memcpy(&sum, &bytes[at + 8], sizeof sum);
    EXPECT_EQ(sum, masked(std::string_view(bytes).substr(at, 8)));
    if (at + 16 + size > bytes.size()) {
      ADD_FAILURE() << "a record is cut off";
      break;
    }
    std::memcpy(&sum, &bytes[at + 12 + size], sizeof sum);
    events.push_back(bytes.substr(at + 12, size));
    EXPECT_EQ(sum, masked(events.back()));
    at += 16 + size;
  }
  return events;
}

TEST(EventRecords, ChecksumFollowsItsStandard) {
  // RFC 3720, B.4
  EXPECT_EQ(event_records::crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(event_records::crc32c(std::string(32, '\0')), 0x8A9136AAU);
}

TEST(EventRecords, EqualProtobufs) {
  // The bytes that tensorboard.compat.proto writes.
  const auto events = events_in(event_records::scalars({1.5, 300}, {{"loss", 0.25}}));
  const std::string expected =
      std::string("\x09\0\0\0\0\0\0\xF8\x3F\x10\xAC\x02\x2A\x0D\x0A\x0B\x0A\x04loss\x15\0\0\x80\x3E", 27);
  EXPECT_THAT(events, ElementsAre(expected));
  EXPECT_THAT(events_in(event_records::beginning(1.5)),
              ElementsAre(std::string("\x09\0\0\0\0\0\0\xF8\x3F\x1A\x0D"
                                      "brain.Event:2",
                                      24)));
}

TEST(RunRecords, ARowIsInAllFiles) {
  ScratchDirectory scratch;
  RunRecords records(scratch / "run", {});
  records.add_scalars(3, {{"loss", 0.5}, {"a, \"b\"", std::numeric_limits<double>::quiet_NaN()}});
  records.add_text(4, "note", "two\nlines");
  const std::string jsonl = read(scratch / "run/metrics.jsonl");
  const auto rows = split(jsonl, '\n');
  const auto row = nlohmann::json::parse(rows.at(0));
  EXPECT_EQ(row.at("loss"), 0.5);
  EXPECT_TRUE(row.at("a, \"b\"").is_null());
  EXPECT_EQ(nlohmann::json::parse(rows.at(1)).at("note"), "two\nlines");
  const std::string csv = read(scratch / "run/metrics.csv");
  EXPECT_THAT(csv, StartsWith("step,time,tag,value\n3,"));
  EXPECT_THAT(csv, HasSubstr(",\"a, \"\"b\"\"\",nan\n"));
  EXPECT_THAT(csv, HasSubstr(",loss,0.5\n"));
  EXPECT_EQ(events_in(read(event_files(scratch / "run").at(0))).size(), 3U);
}

TEST(RunRecords, RepeatedStepsAreThereOnce) {
  ScratchDirectory scratch;
  const std::string run = scratch / "run";
  std::string mark;
  for (std::int64_t attempt = 0; attempt < 4; ++attempt) {
    RunRecords records(run, {});
    if (attempt > 0) ASSERT_TRUE(records.go_on_from(mark));
    for (std::int64_t step = 10 * attempt + 1; step <= 10 * attempt + 15; ++step) {
      records.add_scalars(step, {{"loss", 1.0 / static_cast<double>(step)}});
      if (step == 10 * attempt + 10) mark = records.mark();
    }
  }
  std::vector<std::int64_t> all;
  for (std::int64_t step = 1; step <= 45; ++step) all.push_back(step);
  EXPECT_EQ(steps_in(run + "/metrics.jsonl"), all);
  std::size_t scalars = 0;
  const auto files = event_files(run);
  for (const std::string& file : files)
    for (const std::string& event : events_in(read(file))) scalars += event.find("loss") != std::string::npos;
  EXPECT_EQ(files.size(), 4U);
  EXPECT_EQ(scalars, 45U);
  EXPECT_FALSE(std::filesystem::exists(run + "/before-1"));
}

TEST(RunRecords, RemoveFilesOfAnotherProcessThatContinuedFromTheSameMark) {
  ScratchDirectory scratch;
  const std::string run = scratch / "run";
  std::string mark;
  {
    RunRecords first(run, {});
    first.add_scalars(1, {{"loss", 1}});
    mark = first.mark();
  }
  for (int i = 0; i < 2; ++i) {
    RunRecords again(run, {});
    ASSERT_TRUE(again.go_on_from(mark));
    again.add_scalars(2, {{"loss", 2}});
  }
  EXPECT_THAT(steps_in(run + "/metrics.jsonl"), ElementsAre(1, 2));
  EXPECT_EQ(event_files(run).size(), 2U);
}

TEST(RunRecords, EventFilesOfOtherWritersStay) {
  ScratchDirectory scratch;
  const std::string run = scratch / "run", other = run + "/events.out.tfevents.1767225600.host.7.0";
  std::string mark;
  for (int attempt = 0; attempt < 3; ++attempt) {
    RunRecords records(run, {});
    if (attempt > 0) ASSERT_TRUE(records.go_on_from(mark));
    records.add_scalars(attempt, {{"loss", 1}});
    if (attempt == 0) mark = records.mark();
    if (attempt == 1) std::ofstream(other) << "of a profiler";
  }
  EXPECT_EQ(read(other), "of a profiler");
  EXPECT_THAT(steps_in(run + "/metrics.jsonl"), ElementsAre(0, 2));
  RunRecords(run, {}).add_scalars(9, {{"loss", 1}});  // starts fresh
  EXPECT_EQ(read(other), "of a profiler");
  EXPECT_THAT(steps_in(run + "/before-1/metrics.jsonl"), ElementsAre(0, 2));
  // Rows of a writer of other formats stay too.
  RunRecords(run, {.jsonl = false, .csv = false}).add_scalars(10, {{"loss", 1}});
  EXPECT_THAT(steps_in(run + "/metrics.jsonl"), ElementsAre(9));
}

// A program that logs its settings before it restores a checkpoint.
TEST(RunRecords, RowsBeforeARestoreDoNotCostTheHistory) {
  for (const bool tensorboard : {true, false}) {
    ScratchDirectory scratch;
    const std::string run = scratch / "run";
    std::string mark;
    for (int attempt = 0; attempt < 4; ++attempt) {
      RunRecords records(run, {.tensorboard = tensorboard});
      records.add_scalars(0, {{"parameters", 1234}});
      if (attempt > 0) ASSERT_TRUE(records.go_on_from(mark));
      for (int step = attempt + 1; step <= attempt + 3; ++step) {
        records.add_scalars(step, {{"loss", 0.125}});
        if (step == attempt + 1) mark = records.mark();
      }
    }
    EXPECT_THAT(steps_in(run + "/metrics.jsonl"), ElementsAre(0, 1, 2, 3, 4, 5, 6));
    std::size_t rows = 0;
    for (const std::string& file : event_files(run))
      for (const std::string& event : events_in(read(file)))
        rows += event.find("loss") != std::string::npos || event.find("parameters") != std::string::npos;
    EXPECT_EQ(rows, tensorboard ? 7U : 0U);
    for (const auto& each : std::filesystem::directory_iterator(run))
      EXPECT_TRUE(each.is_regular_file()) << each.path();
  }
}

// That happens if the program was killed in between, or if another training has started there.
TEST(RunRecords, ContinueAHistoryThatWasMovedAside) {
  ScratchDirectory scratch;
  const std::string run = scratch / "run";
  std::string mark;
  {
    RunRecords first(run, {});
    first.add_scalars(1, {{"loss", 1}});
    first.add_scalars(2, {{"loss", 1}});
    mark = first.mark();
  }
  RunRecords(run, {}).add_scalars(100, {{"loss", 1}});
  EXPECT_THAT(steps_in(run + "/before-1/metrics.jsonl"), ElementsAre(1, 2));
  RunRecords again(run, {});
  ASSERT_TRUE(again.go_on_from(mark));
  again.add_scalars(3, {{"loss", 1}});
  EXPECT_THAT(steps_in(run + "/metrics.jsonl"), ElementsAre(1, 2, 3));
  EXPECT_FALSE(std::filesystem::exists(run + "/before-1"));
  EXPECT_THAT(steps_in(run + "/before-2/metrics.jsonl"), ElementsAre(100));
  EXPECT_EQ(event_files(run).size(), 2U);
  EXPECT_EQ(event_files(run + "/before-2").size(), 1U);
}

TEST(RunRecords, ContinueFromTheirOwnMark) {
  ScratchDirectory scratch;
  const std::string run = scratch / "run";
  RunRecords records(run, {});
  for (const std::int64_t step : {1, 2}) records.add_scalars(step, {{"loss", 1}});
  const std::string mark = records.mark();
  records.add_scalars(3, {{"loss", 1}});
  ASSERT_TRUE(records.go_on_from(mark));
  records.add_scalars(30, {{"loss", 1}});
  EXPECT_THAT(steps_in(run + "/metrics.jsonl"), ElementsAre(1, 2, 30));
  EXPECT_EQ(event_files(run).size(), 2U);
  EXPECT_FALSE(std::filesystem::exists(run + "/before-1"));
}

TEST(RunRecords, LoseNothingWhenATrainingStartsFresh) {
  ScratchDirectory scratch;
  const std::string run = scratch / "run";
  for (std::int64_t step = 1; step <= 3; ++step) RunRecords(run, {}).add_scalars(step, {{"loss", 1}});
  EXPECT_THAT(steps_in(run + "/before-1/metrics.jsonl"), ElementsAre(1));
  EXPECT_THAT(steps_in(run + "/before-2/metrics.jsonl"), ElementsAre(2));
  EXPECT_THAT(steps_in(run + "/metrics.jsonl"), ElementsAre(3));
}

TEST(RunRecords, ReportAnErrorOnce) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "run") << "a file";
  RunRecords records(scratch / "run", {});
  testing::internal::CaptureStderr();
  records.add_scalars(1, {{"loss", 1}});
  records.add_scalars(2, {{"loss", 1}});
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("the logger has stopped writing: "));
  EXPECT_EQ(std::ranges::count(told, '\n'), 1);
  EXPECT_FALSE(RunRecords(scratch / "run", {}).go_on_from("[]"));
}

TEST(RunRecords, WritesWhatTensorBoardReads) {
  ScratchDirectory scratch;
  const char* const named = std::getenv("MUSTER_RECORDS_DIRECTORY");
  const std::string run = named != nullptr ? std::string(named) : scratch / "run";
  std::string mark;
  for (std::int64_t attempt = 0; attempt < 4; ++attempt) {
    RunRecords records(run, {});
    if (attempt > 0) ASSERT_TRUE(records.go_on_from(mark));
    if (attempt == 0)
      records.add_settings({{"lr", 0.1}, {"layers", std::int64_t{3}}, {"name", "small"}, {"warm", true}},
                           {{"accuracy", 0.5}});
    for (std::int64_t step = 100 * attempt + 1; step <= 100 * attempt + 140; ++step) {
      records.add_scalars(step, {{"loss", 10.0 / static_cast<double>(step)}, {"lr", 0.1}});
      if (step == 100 * attempt + 100) mark = records.mark();
    }
  }
  RunRecords last(run, {});
  ASSERT_TRUE(last.go_on_from(mark));
  std::vector<double> values;
  for (int i = 0; i <= 1000; ++i) values.push_back(i - 500);
  last.add_histogram(401, "weights", values);
  last.add_histogram(402, "weights", {});
  std::string pixels;
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 24; ++column)
      pixels += {static_cast<char>(row * 16), static_cast<char>(column * 10), 0};
  last.add_image(401, "picture", {.height = 16, .width = 24, .channels = 3}, pixels);
  last.add_image(402, "picture", {.height = 16, .width = 24, .channels = 1}, std::string(16 * 24, '\x80'));
  last.add_text(401, "note", "**a note**");
  for (const std::string& file : event_files(run)) EXPECT_FALSE(events_in(read(file)).empty());
}

}  // namespace
}  // namespace muster
