#include "launcher/io/view/journal_file.h"

#include <filesystem>
#include <sys/stat.h>

#include "launcher/core/journal/journal.h"
#include "tests/scratch_directory.h"
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A job with its journal in a file.
class JournalFileTest : public JobTest {
 protected:
  void keep_journal(std::size_t long_bytes) {
    plan_ = two_nodes_of_two(100);
    plan_.job.log_directory = scratch_ / "";
    anew(plan_);
    journal_.emplace(
        context_.get_executor(), writer_, JournalFile::About{plan_, ""},
        [this](const std::string& what) { warnings_.push_back(what); }, long_bytes);
    controller->set_witness(
        [this](const Controller& self, const Event& event, TimePoint at, const Decisions& decisions) {
          journal_->add(self, event, at, decisions);
          journal_->flush();
          ++count_;
        });
  }
  void restart_twice() {
    run();
    for (int restart = 0; restart < 2; ++restart) {
      now += 40s;
      for (const int rank : {1, 0, 2, 3}) worker_exits(rank, rank == 1 ? 3 : 0, 0, rank != 1);
      empty_all();
      begin();
      start_workers();
    }
  }
  // Waits until the file system has accepted all, or hangs.
  void write() {
    asio::co_spawn(context_, writer_.written(20s, [] { return false; }), asio::detached);
    context_.restart();
    context_.run();
  }
  Replay replayed(const char* name) const {
    const auto again = replay(read_file(scratch_ / name, 1 << 20).value());
    EXPECT_TRUE(again) << again.error().message();
    return again.value_or(Replay());
  }

  const ScratchDirectory scratch_;
  asio::io_context context_{1};
  net::LogWriter writer_{context_.get_executor()};
  Plan plan_;
  std::optional<JournalFile> journal_;
  std::uint64_t count_ = 0;
  std::vector<std::string> warnings_;
};

TEST_F(JournalFileTest, IsReadableOnlyByItsUser) {
  keep_journal(JournalFile::kLongBytes);
  restart_twice();
  write();
  struct stat status{};
  ASSERT_EQ(stat((scratch_ / "journal").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "journal.old"));
  const Replay again = replayed("journal");
  EXPECT_FALSE(again.first_difference) << replay_as_text(again);
  EXPECT_EQ(again.event_count, count_);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JournalFileTest, ContinuesInANewFileWhenItIsLong) {
  keep_journal(4000);
  restart_twice();
  write();
  const Replay newest = replayed("journal");
  const Replay before = replayed("journal.old");
  EXPECT_FALSE(newest.first_difference) << replay_as_text(newest);
  EXPECT_FALSE(before.first_difference) << replay_as_text(before);
  EXPECT_GT(before.event_count, 0U);
  EXPECT_LT(newest.event_count + before.event_count, count_) << "three files were started, and two are kept";
  EXPECT_LE(std::filesystem::file_size(scratch_ / "journal.old"), 16'000U);
}

TEST_F(JournalFileTest, SaysOnceThatItCannotBeWritten) {
  std::filesystem::create_directory(scratch_ / "journal");
  std::filesystem::create_directories(scratch_ / "journal.old/full");  // so that the file cannot be replaced
  keep_journal(JournalFile::kLongBytes);
  run();
  write();
  now += 1s;
  worker_exits(1, 3);
  write();
  EXPECT_THAT(warnings_, ElementsAre(testing::MatchesRegex("cannot write .*/journal: Is a directory; "
                                                           "`launch replay` will lack the rest of the job")));
}

}  // namespace
}  // namespace muster::launcher
