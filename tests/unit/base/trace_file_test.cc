#include "common/base/trace_file.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "common/base/text.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr TimePoint kStart{1000s};

class TraceFileTest : public testing::Test {
 protected:
  std::unique_ptr<TraceFile> open(std::uint64_t limit_bytes = TraceFile::kLimitBytes) const {
    auto file = TraceFile::open(path_, 3, limit_bytes);
    EXPECT_TRUE(file) << file.error().message();
    return *std::move(file);
  }
  std::string text() const { return read_file(path_, 1 << 28).value_or("(none)"); }
  // All events except names of processes and tracks.
  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> found;
    for (std::string_view line : split(text(), '\n')) {
      if (line.ends_with(',')) line.remove_suffix(1);
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event["ph"] != "M") found.push_back(event);
    }
    return found;
  }
  ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "attempt_1/rank_3/trace.json";
};

TEST_F(TraceFileTest, IsAnArrayOfEventsWithoutItsEnd) {
  {
    const auto file = open();
    file->add(TraceTrack::kStep, "step 7", kStart, kStart + 1500us + 7ns, R"("loss":2)");
  }
  EXPECT_THAT(text(), StartsWith("[\n"));
  EXPECT_THAT(text(), HasSubstr(R"("name":"process_name","args":{"name":"rank 3"}})"));
  EXPECT_THAT(text(), EndsWith(R"({"ph":"X","pid":3,"tid":1,"ts":1000000000.000,"dur":1500.007,)"
                               R"("name":"step 7","args":{"loss":2}})"
                               ",\n"));
  std::string whole = text();
  whole.replace(whole.rfind(','), 1, "]");
  const auto array = nlohmann::json::parse(whole, nullptr, false);
  ASSERT_TRUE(array.is_array()) << whole;
  for (const auto& event : array) {
    for (const char* field : {"ph", "pid", "tid", "name"}) EXPECT_TRUE(event.contains(field)) << event;
  }
}

TEST_F(TraceFileTest, HasItsEventsWithoutBeingClosed) {
  const auto file = open();
  file->add(TraceTrack::kData, "load", kStart, kStart + 1ms);
  file->flush();
  EXPECT_EQ(events().size(), 1U);
  file->add(TraceTrack::kData, "load", kStart + 1ms, kStart + 2ms);
  while (events().size() < 2) std::this_thread::yield();  // without flush()
}

TEST_F(TraceFileTest, NamesAreValidJsonWhateverTheyContain) {
  const std::string names[] = {"a \"b\" \\ \n\t\x01", "größer", "broken \xc3", std::string(1000, 'x'),
                               std::string(199, 'x') + "ß"};
  {
    const auto file = open();
    for (const std::string& name : names) file->add(TraceTrack::kSections, name, kStart, kStart);
  }
  const auto found = events();
  ASSERT_EQ(found.size(), 5U) << text();
  EXPECT_EQ(found[0]["name"], names[0]);
  EXPECT_EQ(found[1]["name"], names[1]);
  EXPECT_EQ(found[2]["name"], "broken ?");
  EXPECT_EQ(found[3]["name"], std::string(200, 'x'));
  EXPECT_EQ(found[4]["name"], std::string(199, 'x')) << "a character is not split";
}

TEST_F(TraceFileTest, ContinuesAfterAnIncompleteLineOfAnotherProcess) {
  open()->add(TraceTrack::kStep, "first", kStart, kStart);
  std::ofstream(path_, std::ios::app) << R"({"ph":"X","pid":3,"tid":1,"na)";
  open()->add(TraceTrack::kStep, "second", kStart + 1s, kStart + 1s);
  const auto found = events();
  ASSERT_EQ(found.size(), 2U) << text();
  EXPECT_EQ(found[1]["name"], "second");
}

TEST_F(TraceFileTest, EndsAtItsLimitAndSaysSo) {
  constexpr std::uint64_t kLimit = 1 << 20;
  const auto file = open(kLimit);
  for (int i = 0; i < 40'000; ++i) {
    file->add(TraceTrack::kCommunication, "all_reduce of Float [4] (world)", kStart + i * 1ms,
              kStart + i * 1ms);
    if (i % 1000 == 0) file->flush();
  }
  file->flush();
  const auto size = std::filesystem::file_size(path_);
  EXPECT_GT(size, kLimit * 3 / 4);
  EXPECT_LT(size, kLimit + 1000);
  EXPECT_EQ(events().back()["name"], "the trace ends here: it is limited to 1 MiB");
  file->add(TraceTrack::kStep, "more", kStart, kStart);
  file->flush();
  EXPECT_EQ(std::filesystem::file_size(path_), size);
}

TEST_F(TraceFileTest, HasTheCompleteEventsOfAllThreads) {
  {
    const auto file = open();
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&file] {
        for (int i = 0; i < 500; ++i)
          file->add(TraceTrack::kData, "load", kStart + i * 1ms, kStart + i * 1ms);
      });
  }
  EXPECT_EQ(events().size(), 2000U);
}

TEST_F(TraceFileTest, SaysWhyItCannotBeWritten) {
  std::ofstream(scratch_ / "file") << "x";
  const auto file = TraceFile::open(scratch_ / "file/trace.json", 0);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message(), HasSubstr(scratch_ / "file"));
}

}  // namespace
}  // namespace muster
