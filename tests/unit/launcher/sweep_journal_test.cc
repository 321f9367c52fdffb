#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/process.h"
#include "launcher/io/sweep/journal.h"
#include "tests/scratch_directory.h"

namespace muster::launcher::sweep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const nlohmann::ordered_json kDefinition = {{"space", {{"lr", "loguniform:1e-5:1e-1"}, {"a", "int:1:4"}}},
                                            {"seed", 7}};

Event report(std::int64_t step) {
  return Reported{.trial = 0, .step = step, .values = {{"val_loss", 1.0 / static_cast<double>(step + 1)}}};
}

std::vector<Event> reports(std::int64_t count) {
  std::vector<Event> all;
  for (std::int64_t step = 0; step < count; ++step) all.push_back(report(step));
  return all;
}

std::string as_text(const std::vector<Event>& events) {
  std::string text;
  for (const Event& event : events) text += event_as_json(event).dump() + "\n";
  return text;
}

// A process that runs `work`, which may use the file descriptor; the parent reads from the other end.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      work(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    in_ = UniqueFd(ends[0]);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  // The next number that the child has written; -1: none will come.
  std::int64_t next() {
    std::int64_t number = 0;
    return ::read(in_.get(), &number, sizeof(number)) == sizeof(number) ? number : -1;
  }

 private:
  pid_t pid_ = 0;
  UniqueFd in_;
};

void tell(int out, std::int64_t number) {
  if (write(out, &number, sizeof(number)) != sizeof(number)) _exit(1);
}

class SweepJournal : public testing::Test {
 protected:
  std::string directory() const { return scratch_ / "sweep"; }
  std::string file() const { return directory() + "/sweep.db"; }
  void change(const std::string& statement) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << statement;
    sqlite3_close(database);
  }
  void make(std::int64_t count) const {
    auto journal = Journal::create(directory(), kDefinition);
    ASSERT_TRUE(journal) << journal.error().message();
    ASSERT_TRUE(journal->add(reports(count)));
  }
  // One line, whose text begins or ends somewhere with `part`.
  static void expect_line(const Error& error, ErrorCode code, const std::string& part) {
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_THAT(error.message(), AllOf(HasSubstr(part), Not(HasSubstr("\n"))));
  }

  ScratchDirectory scratch_;
};

TEST_F(SweepJournal, HasItsDefinitionAndEventsInOrderAfterItWasOpenedAgain) {
  const std::vector<Event> all = {
      TrialCreated{.trial = 0, .point = {{"lr", 0.1}, {"units", std::int64_t{64}}}, .reason = "random"},
      RunBegan{.trial = 0, .run = 0, .until = 9, .place = "node2 GPU 0,1"},
      Reported{.trial = 0, .step = 3, .values = {{"val_loss", 0.1 + 0.2}}, .at = 1.5},
      RunEnded{.trial = 0, .end = RunEnd::kPaused, .text = "stopped by SIGINT"}};
  {
    auto journal = Journal::create(directory(), kDefinition);
    ASSERT_TRUE(journal) << journal.error().message();
    EXPECT_EQ(journal->events().value().size(), 0u);
    ASSERT_TRUE(journal->add(all[0]));
    ASSERT_TRUE(journal->add(std::span(all).subspan(1, 2)));
  }
  auto journal = Journal::open(directory());
  ASSERT_TRUE(journal) << journal.error().message();
  ASSERT_TRUE(journal->add(all[3]));
  EXPECT_EQ(as_text(journal->events().value()), as_text(all));
  EXPECT_EQ(journal->definition().value().dump(), kDefinition.dump()) << "the order of members counts";
}

TEST_F(SweepJournal, IsNotMadeTwice) {
  make(1);
  expect_line(Journal::create(directory(), kDefinition).error(), ErrorCode::kInvalidArgument,
              "has a sweep already: resume it, or choose another directory");
  std::filesystem::create_directories(scratch_ / "other/trials");
  expect_line(Journal::create(scratch_ / "other", kDefinition).error(), ErrorCode::kInvalidArgument,
              "has trials of another sweep");
  EXPECT_EQ(Journal::open(directory())->events().value().size(), 1u);
}

TEST_F(SweepJournal, ADirectoryWithoutOneIsNamed) {
  const std::string expected = directory() + " is not a sweep's directory: it has no sweep.db";
  expect_line(Journal::open(directory()).error(), ErrorCode::kNotFound, expected);
  expect_line(Journal::read(directory()).error(), ErrorCode::kNotFound, expected);
}

TEST_F(SweepJournal, ASecondControllerIsRefusedAndMayRead) {
  Child first([this](int out) {
    auto journal = Journal::create(directory(), kDefinition);
    if (!journal || !journal->add(reports(2))) _exit(1);
    tell(out, 2);
    pause();
  });
  ASSERT_EQ(first.next(), 2);
  const std::string who =
      fmt::format("process {} on {} already runs the sweep", first.pid(), own_identity().host);
  expect_line(Journal::open(directory()).error(), ErrorCode::kFenced, who);
  expect_line(Journal::create(directory(), kDefinition).error(), ErrorCode::kFenced, who);
  EXPECT_EQ(running_controller(directory()).value().pid, first.pid());
  EXPECT_EQ(Journal::read(directory())->events().value().size(), 2u);
  first.end();
  EXPECT_FALSE(running_controller(directory()));
  EXPECT_TRUE(Journal::open(directory()));
}

// As posix_spawn() does: the started process has all descriptors until it executes its program.
TEST_F(SweepJournal, IsContinuedWhenItsControllerWasKilledWhileItStartedAProcess) {
  Child first([this](int out) {
    auto journal = Journal::create(directory(), kDefinition);
    if (fork() == 0) {
      ualarm(200'000, 0);
      pause();
    }
    tell(out, 1);
    pause();
  });
  ASSERT_EQ(first.next(), 1);
  first.end();
  const auto journal = Journal::open(directory());
  EXPECT_TRUE(journal) << journal.error().message();
}

TEST_F(SweepJournal, AControllersOwnReaderDoesNotFreeTheLock) {
  auto journal = Journal::create(directory(), kDefinition);
  ASSERT_TRUE(journal);
  {
    const auto other = Journal::read(directory());
  }
  const pid_t child = fork();
  if (child == 0) _exit(Journal::open(directory()) ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(journal->add(report(0)));
}

TEST_F(SweepJournal, AReaderSeesWhatTheControllerAddsMeanwhile) {
  auto journal = Journal::create(directory(), kDefinition);
  const auto reader = Journal::read(directory());
  ASSERT_TRUE(reader);
  for (std::int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(journal->add(report(step)));
    EXPECT_EQ(reader->events().value().size(), static_cast<std::size_t>(step) + 1);
  }
}

// Each child continues the journal of the killed one before it, and is killed at another moment.
TEST_F(SweepJournal, HasEveryAcknowledgedEventWhenItsControllerIsKilled) {
  make(0);
  std::int64_t acknowledged = 0;
  for (int kills = 0; kills < 5; ++kills) {
    Child controller([this](int out) {
      auto journal = Journal::open(directory());
      if (!journal) _exit(1);
      for (auto step = static_cast<std::int64_t>(journal->events()->size());; ++step) {
        if (!journal->add(report(step))) _exit(1);
        tell(out, step + 1);
      }
    });
    for (int i = 0; i <= 3 * kills; ++i) acknowledged = controller.next();
    ASSERT_GT(acknowledged, 0);
    controller.end();
    // Acknowledged before the kill, and not read yet.
    for (std::int64_t last = controller.next(); last > 0; last = controller.next()) acknowledged = last;
    const auto events = Journal::read(directory())->events();
    ASSERT_TRUE(events) << events.error().message();
    const auto count = static_cast<std::int64_t>(events->size());
    EXPECT_GE(count, acknowledged);
    EXPECT_LE(count, acknowledged + 1);
    EXPECT_EQ(as_text(*events), as_text(reports(count)));
  }
}

TEST_F(SweepJournal, HasAllOrNoneOfABatchWhenItsControllerIsKilled) {
  constexpr std::size_t kBatch = 400;
  make(0);
  const std::vector<Event> batch = reports(kBatch);
  for (int kills = 0; kills < 3; ++kills) {
    Child controller([&](int out) {
      auto journal = Journal::open(directory());
      tell(out, 1);
      while (journal && journal->add(batch)) tell(out, 1);
    });
    for (int i = 0; i <= kills; ++i) ASSERT_EQ(controller.next(), 1);
    controller.end();
    EXPECT_EQ(Journal::read(directory())->events().value().size() % kBatch, 0u);
  }
}

TEST_F(SweepJournal, ACreationThatIsKilledLeavesNoJournal) {
  for (int microseconds = 0; microseconds < 24'000; microseconds += 3'000) {
    Child controller([&](int out) {
      tell(out, 1);
      const auto journal = Journal::create(directory(), kDefinition);
      if (journal) tell(out, 2);
      pause();
    });
    ASSERT_EQ(controller.next(), 1);
    std::this_thread::yield();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    while (std::chrono::steady_clock::now() < deadline) {
    }
    controller.end();
    const bool acknowledged = controller.next() == 2;
    const auto left = Journal::read(directory());
    EXPECT_TRUE(left || left.error().code() == ErrorCode::kNotFound) << left.error().message();
    EXPECT_TRUE(left || !acknowledged);
    if (left) {
      EXPECT_EQ(left->definition().value(), kDefinition);
    }
    std::filesystem::remove(file());
  }
}

TEST_F(SweepJournal, ADamagedFileIsNamed) {
  make(2000);
  const auto size = std::filesystem::file_size(file());
  const auto overwrite = [&](std::uint64_t at, std::uint64_t count) {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at));
    stream << std::string(count, '\x5A');
  };
  overwrite(size / 2, 8192);
  expect_line(Journal::open(directory()).error(), ErrorCode::kCorrupt, file() + " is damaged (");
  expect_line(Journal::read(directory())->events().error(), ErrorCode::kCorrupt, file() + " is damaged (");
  std::filesystem::resize_file(file(), 4096);
  expect_line(Journal::open(directory()).error(), ErrorCode::kCorrupt, file() + " is damaged (");
  overwrite(0, 4096);
  expect_line(Journal::open(directory()).error(), ErrorCode::kCorrupt, "file is not a database");
  expect_line(Journal::read(directory()).error(), ErrorCode::kCorrupt, "file is not a database");
  std::filesystem::resize_file(file(), 0);
  expect_line(Journal::open(directory()).error(), ErrorCode::kCorrupt, "is not the journal of a sweep");
}

TEST_F(SweepJournal, ADamagedEventIsNamed) {
  make(5);
  change("UPDATE events SET event = '{\"event\": ' WHERE number = 3");
  expect_line(Journal::read(directory())->events().error(), ErrorCode::kCorrupt, "event 3 is not JSON");
  change("UPDATE events SET event = '{\"event\": \"eaten\"}' WHERE number = 3");
  expect_line(Journal::read(directory())->events().error(), ErrorCode::kCorrupt, "event 3: ");
  change("UPDATE events SET event = '" + std::string(100'000, '[') + "' WHERE number = 3");
  expect_line(Journal::read(directory())->events().error(), ErrorCode::kCorrupt, "event 3 is not JSON");
  change("DELETE FROM events WHERE number = 3");
  expect_line(Journal::read(directory())->events().error(), ErrorCode::kCorrupt, "event 3 is missing");
  change("UPDATE sweep SET value = '[' WHERE key = 'definition'");
  expect_line(Journal::read(directory())->definition().error(), ErrorCode::kCorrupt,
              "definition is not JSON");
}

TEST_F(SweepJournal, ANewerFormatIsRefused) {
  make(1);
  change("UPDATE sweep SET value = '2' WHERE key = 'format'");
  const std::string expected =
      file() + ": it has format 2, and this version of Muster reads up to 1: use the version that wrote it";
  expect_line(Journal::open(directory()).error(), ErrorCode::kInvalidArgument, expected);
  expect_line(Journal::read(directory()).error(), ErrorCode::kInvalidArgument, expected);
}

// Runs `work` in a thread with mounts of its own, where the directory of the test is a small file system.
template <class Work>
bool on_small_disk(const ScratchDirectory& scratch, const char* options, Work work) {
  bool mounted = false;
  std::thread([&] {
    mounted = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("none", scratch.path().c_str(), "tmpfs", 0, options) == 0;
    if (mounted) work();
  }).join();
  return mounted;
}

TEST_F(SweepJournal, OnAFullDiskFailsWithOneLineAndGoesOnWhenThereIsRoomAgain) {
  const bool mounted = on_small_disk(scratch_, "size=256k", [this] {
    auto journal = Journal::create(directory(), kDefinition);
    ASSERT_TRUE(journal) << journal.error().message();
    Status added;
    std::int64_t count = 0;
    while ((added = journal->add(report(count))) && count < 100'000) ++count;
    ASSERT_FALSE(added);
    expect_line(added.error(), ErrorCode::kInternal,
                "cannot write " + file() + ": the disk is full: make room, then resume the sweep");
    EXPECT_EQ(as_text(journal->events().value()), as_text(reports(count)));
    ASSERT_EQ(mount("none", scratch_.path().c_str(), "tmpfs", MS_REMOUNT, "size=4m"), 0);
    EXPECT_TRUE(journal->add(report(count)));
    EXPECT_EQ(as_text(journal->events().value()), as_text(reports(count + 1)));
  });
  if (!mounted) GTEST_SKIP() << "this user may not mount";
}

TEST_F(SweepJournal, OnADiskWithoutRoomForItIsNotMade) {
  const bool mounted = on_small_disk(scratch_, "size=8k", [this] {
    expect_line(Journal::create(directory(), kDefinition).error(), ErrorCode::kInternal, "the disk is full");
    EXPECT_FALSE(std::filesystem::exists(file()));
    ASSERT_EQ(mount("none", scratch_.path().c_str(), "tmpfs", MS_REMOUNT, "size=4m"), 0);
    EXPECT_TRUE(Journal::create(directory(), kDefinition));
  });
  if (!mounted) GTEST_SKIP() << "this user may not mount";
}

TEST_F(SweepJournal, InAReadOnlyDirectoryIsReadButNotContinued) {
  const bool mounted = on_small_disk(scratch_, "size=4m", [this] {
    make(3);
    ASSERT_EQ(mount("none", scratch_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
    const auto journal = Journal::read(directory());
    ASSERT_TRUE(journal) << journal.error().message();
    EXPECT_EQ(journal->events().value().size(), 3u);
    expect_line(Journal::open(directory()).error(), ErrorCode::kPermission, "Read-only file system");
    expect_line(Journal::create(scratch_ / "other", kDefinition).error(), ErrorCode::kPermission,
                "Read-only file system");
  });
  if (!mounted) GTEST_SKIP() << "this user may not mount";
}

TEST_F(SweepJournal, OfAnotherUserIsReadAlsoAfterItsControllerWasKilled) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  ASSERT_EQ(chmod(scratch_.path().c_str(), 0755), 0);
  Child controller([this](int out) {
    auto journal = Journal::create(directory(), kDefinition);
    if (!journal || !journal->add(reports(3))) _exit(1);
    tell(out, 1);
    pause();
  });
  ASSERT_EQ(controller.next(), 1);
  for (const bool killed : {false, true}) {
    if (killed) controller.end();
    Child reader([this](int out) {
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
      const auto journal = Journal::read(directory());
      tell(out,
           journal && !Journal::open(directory()) ? static_cast<std::int64_t>(journal->events()->size()) : 0);
    });
    EXPECT_EQ(reader.next(), 3) << (killed ? "killed" : "running");
  }
}

TEST(NetworkFileSystem, IsToldByItsMagicNumber) {
  for (const auto& [magic, name] : std::map<std::int64_t, std::string>{{0x6969, "NFS"},
                                                                       {0xFF534D42, "CIFS"},
                                                                       {0xFE534D42, "SMB2"},
                                                                       {0x0BD00BD3, "Lustre"},
                                                                       {0x19830326, "BeeGFS"},
                                                                       {0x00C36400, "CephFS"},
                                                                       {0x01021997, "9p"},
                                                                       {0x65735546, "FUSE, such as sshfs"}}) {
    EXPECT_EQ(network_file_system(magic), name);
    EXPECT_EQ(network_file_system(static_cast<std::int32_t>(magic)), name) << "sign-extended";
  }
  for (const std::int64_t local :
       std::vector<std::int64_t>{0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x2FC12FC1})
    EXPECT_EQ(network_file_system(local), "") << local;  // ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS
}

}  // namespace
}  // namespace muster::launcher::sweep
