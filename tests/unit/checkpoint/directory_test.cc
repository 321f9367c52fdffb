#include "common/checkpoint/directory.h"

#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/file.h"
#include "common/wire/digest.h"
#include "common/wire/json.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointDirectoryTest : public testing::Test {
 protected:
  // Leaves what a writer of this attempt leaves when it commits this step.
  void commit(std::uint64_t step, Attempt attempt) {
    const CheckpointId id{.step = step, .attempt = attempt};
    ASSERT_TRUE(make_directories(directory_.path_of(id)));
    const CheckpointManifest manifest{
        .id = id,
        .job = "job",
        .world_size = 1,
        .files = {{.name = "rank-00000.safetensors", .size_bytes = 3, .chunks = {digest_of("abc")}}}};
    ASSERT_TRUE(write_file_durably(directory_.manifest_path(id), encode_manifest(manifest)));
  }
  Attempt begin() { return directory_.begin_attempt("job").value().attempt; }
  std::vector<std::string> resumable() {
    std::vector<std::string> names;
    for (const CheckpointId& id : directory_.resumable().value())
      names.push_back(fmt::format("{}@{}", id.step, id.attempt));
    return names;
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(scratch_ / name) << text; }

  ScratchDirectory scratch_;
  CheckpointDirectory directory_{scratch_.path().string()};
};

TEST_F(CheckpointDirectoryTest, FirstAttemptResumesFromNothingAndNumbersGoOn) {
  const AttemptRecord first = directory_.begin_attempt("job").value();
  EXPECT_EQ(first.attempt, kFirstAttempt);
  EXPECT_FALSE(first.resume);
  EXPECT_EQ(begin(), kFirstAttempt.next());
  EXPECT_EQ(directory_.attempts().value().front(), first);
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "attempts/000001.json"));
}

TEST_F(CheckpointDirectoryTest, TheNewestAttemptSaysWhichProcessBeganIt) {
  EXPECT_FALSE(directory_.newest());
  begin();
  const AttemptRecord second = directory_.begin_attempt("second").value();
  ASSERT_EQ(directory_.newest(), second);
  EXPECT_EQ(second.owner, own_identity());
  write("attempts/000003.claim", R"({"format":1,"attempt":3,"job":"j","host":"far","resume":null})");
  EXPECT_EQ(directory_.newest()->owner.host, "far") << "it has only claimed its number";
}

// Each caller is a process that lives until all have tried.
TEST_F(CheckpointDirectoryTest, OneOfSeveralConcurrentProcessesBeginsWithoutTakingOver) {
  constexpr int kProcesses = 8;
  int go[2];
  int answers[2];
  int stay[2];
  ASSERT_TRUE(pipe(go) == 0 && pipe(answers) == 0 && pipe(stay) == 0);
  std::vector<pid_t> pids;
  for (int i = 0; i < kProcesses; ++i) {
    pids.push_back(fork());
    if (pids.back() != 0) continue;
    char byte = 0;
    for (const int fd : {go[1], stay[1]}) close(fd);
    (void)!read(go[0], &byte, 1);
    const auto begun = directory_.begin_attempt("job", /*take_over=*/false);
    const bool refused = !begun && begun.error().code() == ErrorCode::kFenced &&
                         begun.error().message().find("is in use by job job (process ") != std::string::npos;
    (void)!::write(answers[1], begun ? "b" : refused ? "r" : "?", 1);
    (void)!read(stay[0], &byte, 1);
    _exit(0);
  }
  close(go[1]);
  std::string said(kProcesses, ' ');
  for (char& each : said) ASSERT_EQ(read(answers[0], &each, 1), 1);
  std::ranges::sort(said);
  EXPECT_EQ(said, "b" + std::string(kProcesses - 1, 'r'));
  close(stay[1]);
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  EXPECT_EQ(directory_.begin_attempt("next", /*take_over=*/false).value().attempt, Attempt(2))
      << "that one has ended, and a refusal takes no number";
  for (const int fd : {go[0], answers[0], answers[1], stay[0]}) close(fd);
}

TEST_F(CheckpointDirectoryTest, APipeInPlaceOfAnAttemptFileIsNamedAndNotWaitedFor) {
  begin();
  const std::string pipe = scratch_ / "attempts/000002.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto refused = directory_.begin_attempt("job");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message(), HasSubstr(pipe));
}

TEST_F(CheckpointDirectoryTest, APipeInPlaceOfAManifestIsDamageAndNotWaitedFor) {
  const Attempt attempt = begin();
  commit(100, attempt);
  const CheckpointId id{.step = 200, .attempt = attempt};
  ASSERT_TRUE(make_directories(directory_.path_of(id)));
  ASSERT_EQ(mkfifo(directory_.manifest_path(id).c_str(), 0600), 0);
  EXPECT_THAT(resumable(), ElementsAre("100@1"));
}

TEST_F(CheckpointDirectoryTest, ChainLeadsOverAttemptsThatCommittedNothing) {
  const Attempt first = begin();
  commit(100, first);
  commit(200, first);
  begin();  // dies before its first commit
  const AttemptRecord third = directory_.begin_attempt("job").value();
  EXPECT_EQ(third.resume, (CheckpointId{.step = 200, .attempt = first}));
  commit(300, third.attempt);
  EXPECT_THAT(resumable(), ElementsAre("300@3", "200@1", "100@1"));
}

TEST_F(CheckpointDirectoryTest, CommitOfAZombieAfterTheTakeoverDoesNotCount) {
  const Attempt first = begin();
  commit(100, first);
  const Attempt second = begin();
  commit(200, first);  // the zombie
  commit(150, second);
  EXPECT_THAT(resumable(), ElementsAre("150@2", "100@1"));
  EXPECT_EQ(directory_.committed().value().size(), 3u);
}

TEST_F(CheckpointDirectoryTest, AnAttemptThatStartedFromNothingEndsTheChain) {
  const Attempt first = begin();
  begin();
  commit(100, first);
  EXPECT_THAT(resumable(), ElementsAre());
  EXPECT_TRUE(directory_.unrecorded().value().empty());
}

TEST_F(CheckpointDirectoryTest, CandidatesOfAnOlderAttemptLeaveOutNewerOnes) {
  const Attempt first = begin();
  commit(100, first);
  commit(200, begin());
  const auto entries = directory_.candidates(first).value();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].id.step, 100u);
}

TEST_F(CheckpointDirectoryTest, UncommittedAndDamagedDirectoriesAreNotResumed) {
  const Attempt first = begin();
  commit(100, first);
  commit(200, first);
  commit(300, first);
  write("step-200.attempt-1/manifest.json", "{\"body\":");
  std::filesystem::copy_file(scratch_ / "step-100.attempt-1/manifest.json",
                             scratch_ / "step-300.attempt-1/manifest.json",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::create_directory(scratch_ / "step-400.attempt-1");
  EXPECT_THAT(resumable(), ElementsAre("100@1"));
  const auto entries = directory_.candidates().value();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_THAT(entries[0].damage.value().message(), HasSubstr("it is the manifest of step-100.attempt-1"));
  EXPECT_THAT(entries[1].damage.value().message(), HasSubstr("not a manifest"));
}

TEST_F(CheckpointDirectoryTest, ForeignAndUnreadableAttemptFilesAreNamed) {
  begin();
  write("attempts/000002.json", "garbage");
  EXPECT_THAT(directory_.attempts().error().message(),
              HasSubstr("attempts/000002.json: not an attempt file"));
  EXPECT_FALSE(directory_.begin_attempt("job"));
  std::filesystem::remove(scratch_ / "attempts/000002.json");
  write("attempts/notes.txt", "");
  EXPECT_THAT(directory_.attempts().error().message(),
              HasSubstr("attempts/notes.txt is not a file of Muster"));
}

// Nested so deeply that copying or writing it would exhaust the stack.
TEST_F(CheckpointDirectoryTest, DeepNestingIsRefused) {
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  EXPECT_THAT(
      parse_manifest("{\"body\":" + deep + ",\"xxh3\":\"" + xxh3_digest(deep) + "\"}").error().message(),
      HasSubstr("nested deeper than 8"));
  EXPECT_THAT(parse_attempt_record("{\"format\":" + deep + "}", Attempt(1)).error().message(),
              HasSubstr("nested deeper than 8"));
}

TEST_F(CheckpointDirectoryTest, NumbersThatAreNotWholeAreRefused) {
  EXPECT_THAT(
      parse_attempt_record(R"({"format":1,"attempt":1e300,"job":"","host":"","resume":null})", Attempt(1))
          .error()
          .message(),
      HasSubstr("not a whole number"));
  for (const char* resume : {R"({"step":true,"attempt":1})", R"({"step":-1,"attempt":1})"}) {
    const auto record = parse_attempt_record(
        fmt::format(R"({{"format":1,"attempt":2,"job":"","host":"","resume":{}}})", resume), Attempt(2));
    ASSERT_FALSE(record) << resume;
    EXPECT_THAT(record.error().message(), HasSubstr("not a whole number, or too large"));
  }
}

TEST_F(CheckpointDirectoryTest, AttemptFileUnderAnotherNumberIsRefused) {
  begin();
  std::filesystem::copy_file(scratch_ / "attempts/000001.json", scratch_ / "attempts/000002.json");
  EXPECT_THAT(directory_.attempts().error().message(), HasSubstr("it says attempt 1"));
}

TEST_F(CheckpointDirectoryTest, LeftoversOfACrashAreIgnored) {
  begin();
  write("attempts/000002.json.tmp-17-1", "half");
  write("something else.txt", "");
  EXPECT_EQ(begin(), Attempt(2));
}

TEST_F(CheckpointDirectoryTest, TheNumberOfALostAttemptFileIsNotReusedAndItsCheckpointsAreOrphans) {
  commit(50, begin());
  commit(100, Attempt(5));
  EXPECT_EQ(begin(), Attempt(6));
  EXPECT_THAT(resumable(), ElementsAre("50@1"));
  EXPECT_EQ(directory_.unrecorded().value().size(), 1u);
}

TEST_F(CheckpointDirectoryTest, NoAttemptBeginsFromNothingWhereAnAttemptFileIsLost) {
  commit(100, begin());
  commit(200, Attempt(1));
  write("step-200.attempt-1/manifest.json", "{}");
  std::filesystem::rename(scratch_ / "attempts/000001.json", scratch_ / "lost.json");
  const auto refused = directory_.begin_attempt("job");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("step 100 of attempt 1, step 200 of attempt 1 (its attempt file is missing)"));
  std::filesystem::rename(scratch_ / "lost.json", scratch_ / "attempts/000001.json");
  EXPECT_EQ(directory_.begin_attempt("job").value().resume->step, 100u) << "it is found when it is back";
}

TEST_F(CheckpointDirectoryTest, NoAttemptBeginsFromNothingWhereAllManifestsAreDamaged) {
  const Attempt first = begin();
  commit(100, first);
  commit(200, first);
  const std::string older = scratch_ / "step-100.attempt-1/manifest.json";
  const std::string whole = read_file(older, 1 << 16).value();
  for (const std::string& text : {std::string(), std::string("{}"), whole.substr(0, whole.size() / 2),
                                  std::string(whole).replace(whole.find("job"), 3, "bit")}) {
    write("step-100.attempt-1/manifest.json", text);
    write("step-200.attempt-1/manifest.json", text);
    const auto refused = directory_.begin_attempt("job");
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(refused.error().message(),
                testing::ContainsRegex("has checkpoints and none can be used; .*Tried: step 200 of attempt 1 "
                                       "\\(cannot use .*\\); step 100 of attempt 1 \\(cannot use .*\\)$"));
  }
  std::filesystem::remove(older);
  std::filesystem::create_directory(older);
  EXPECT_THAT(directory_.begin_attempt("job").error().message(), HasSubstr("not a regular file"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "attempts/000002.claim"));
  std::filesystem::remove(older);
  write("step-100.attempt-1/manifest.json", whole);
  EXPECT_EQ(directory_.begin_attempt("job").value().resume->step, 100u) << "it is found when it is repaired";
}

TEST_F(CheckpointDirectoryTest, CandidatesNameTheDamagedOnesThatTheAttemptSkipped) {
  commit(100, begin());
  const Attempt second = begin();
  commit(200, second);
  commit(300, second);
  write("step-200.attempt-2/manifest.json", "");
  write("step-300.attempt-2/manifest.json", "");
  const AttemptRecord third = directory_.begin_attempt("job").value();
  ASSERT_EQ(third.resume->step, 100u);
  commit(250, second);  // a zombie
  const auto names = [this] {
    std::vector<std::string> found;
    for (const CheckpointEntry& entry : directory_.candidates().value())
      found.push_back(name_of(entry.id) + (entry.damage ? ", damaged" : ""));
    return found;
  };
  EXPECT_THAT(names(), ElementsAre("step 300 of attempt 2, damaged", "step 200 of attempt 2, damaged",
                                   "step 100 of attempt 1"));
  commit(150, third.attempt);
  EXPECT_THAT(names(), testing::Contains("step 150 of attempt 3"));
  EXPECT_EQ(names().front(), "step 150 of attempt 3");
}

// Reading it fails, but its content may be whole: the next try may succeed.
TEST_F(CheckpointDirectoryTest, NoAttemptSkipsAManifestThatCannotBeReadNow) {
  const Attempt first = begin();
  commit(100, first);
  commit(200, first);
  const std::string manifest = scratch_ / "step-200.attempt-1/manifest.json";
  std::filesystem::rename(manifest, scratch_ / "whole.json");
  std::filesystem::create_symlink("/proc/self/mem", manifest);  // a regular file without a first byte
  const auto refused = directory_.begin_attempt("job");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              testing::AllOf(HasSubstr(manifest), HasSubstr("Input/output error")));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "attempts/000002.claim"));
  std::filesystem::rename(scratch_ / "whole.json", manifest);
  EXPECT_EQ(directory_.begin_attempt("job").value().resume->step, 200u);
}

TEST_F(CheckpointDirectoryTest, FenceNamesTheNewestOwner) {
  const Attempt mine = begin();
  EXPECT_TRUE(directory_.check_newest(mine));
  directory_.begin_attempt("other").value();
  const Status fenced = directory_.check_newest(mine);
  ASSERT_FALSE(fenced);
  EXPECT_EQ(fenced.error().code(), ErrorCode::kFenced);
  EXPECT_THAT(fenced.error().message(), HasSubstr("attempt 2 of job 'other' on host"));
}

TEST_F(CheckpointDirectoryTest, ANewerAttemptFencesEvenIfItsFileCannotBeReadOrIsNotWrittenYet) {
  const Attempt mine = begin();
  for (const char* file : {"attempts/000007.json", "attempts/000008.claim"}) {
    write(file, "");
    const Status fenced = directory_.check_newest(mine);
    ASSERT_FALSE(fenced);
    EXPECT_EQ(fenced.error().code(), ErrorCode::kFenced);
    EXPECT_THAT(fenced.error().message(), HasSubstr("(its file cannot be read: "));
  }
}

TEST_F(CheckpointDirectoryTest, FenceNamesAnOwnerThatHasOnlyClaimedItsNumber) {
  const Attempt mine = begin();
  const Attempt other = directory_.begin_attempt("other").value().attempt;
  std::filesystem::remove(scratch_ / fmt::format("attempts/{:06}.json", other.value()));
  EXPECT_THAT(directory_.check_newest(mine).error().message(), HasSubstr("attempt 2 of job 'other' on host"));
}

TEST_F(CheckpointDirectoryTest, AnAttemptWhoseFileIsGoneMayNotWrite) {
  const Attempt mine = begin();
  const std::string attempts = scratch_ / "attempts";
  std::filesystem::rename(attempts, scratch_ / "away");
  const Status gone = directory_.check_newest(mine);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(gone.error().message(),
            fmt::format("the checkpoint directory {} is gone (moved or removed during the training): "
                        "there is no attempts/000001.json in it",
                        directory_.path()));
  std::filesystem::rename(scratch_ / "away", attempts);
  EXPECT_TRUE(directory_.check_newest(mine));
}

// A launcher claimed a number and died: older attempts are fenced, and everything that they reported is kept.
TEST_F(CheckpointDirectoryTest, AClaimWithoutARecordIsSkippedByTheChain) {
  const Attempt first = begin();
  commit(100, first);
  write("attempts/000002.claim", "");
  EXPECT_THAT(resumable(), ElementsAre("100@1"));
  const AttemptRecord third = directory_.begin_attempt("job").value();
  EXPECT_EQ(third.attempt, Attempt(3));
  EXPECT_EQ(third.resume, (CheckpointId{.step = 100, .attempt = first}));
}

TEST_F(CheckpointDirectoryTest, ADirectoryThatCannotBeTakenOverIsNotTakenFromItsOwner) {
  begin();
  write("attempts/000002.json", "garbage");
  EXPECT_FALSE(directory_.begin_attempt("job"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "attempts/000003.claim"));
}

TEST_F(CheckpointDirectoryTest, ANewestCheckpointOfANewerFormatPreventsAnAttempt) {
  const Attempt mine = begin();
  commit(1, mine);
  commit(2, mine);
  const std::string body = R"({"format":3,"written":"otherwise"})";
  write("step-2.attempt-1/manifest.json",
        fmt::format(R"({{"body":{},"xxh3":"{}"}})", body, xxh3_digest(body)));
  const auto begun = directory_.begin_attempt("job");
  ASSERT_FALSE(begun);
  EXPECT_THAT(begun.error().message(),
              HasSubstr("step-2.attempt-1/manifest.json: it has format 3, "
                        "and this version of Muster reads up to 2: use the version"));
  EXPECT_EQ(begun.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "attempts/000002.claim"));
  EXPECT_FALSE(check_formats(directory_.candidates().value()));
  commit(3, mine);  // by another version, used meanwhile
  EXPECT_TRUE(check_formats(directory_.candidates().value()));
  EXPECT_EQ(directory_.begin_attempt("job").value().resume, (CheckpointId{.step = 3, .attempt = mine}));
}

TEST_F(CheckpointDirectoryTest, AnAttemptOnAFullDiskLeavesNoClaim) {
  bool mounted = false;
  std::thread([&] {  // this thread has its own mounts
    // Room for this directory, the directory of attempts, the claim and the record of one attempt, and the
    // temporary name of one more claim.
    mounted = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("none", scratch_.path().c_str(), "tmpfs", 0, "nr_inodes=6") == 0;
    if (!mounted) return;
    EXPECT_EQ(begin(), Attempt(1));
    EXPECT_THAT(directory_.begin_attempt("job").error().message(), HasSubstr("No space left on device"));
    EXPECT_TRUE(directory_.check_newest(Attempt(1))) << "the first attempt continues";
    ASSERT_EQ(mount("none", scratch_.path().c_str(), "tmpfs", MS_REMOUNT, "nr_inodes=100"), 0);
    EXPECT_EQ(begin(), Attempt(2));
  })
      .join();
  if (!mounted) GTEST_SKIP() << "this user may not mount";
}

TEST_F(CheckpointDirectoryTest, ConcurrentAttemptsGetDifferentNumbers) {
  std::vector<Attempt> numbers(16);
  std::vector<std::thread> threads;
  for (Attempt& number : numbers) threads.emplace_back([&] { number = begin(); });
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
  EXPECT_EQ(directory_.attempts().value().size(), 16u);
}

// Holds for every interleaving: if a commit's writer saw no newer attempt afterwards, the concurrent attempt
// has the commit in its chain.
TEST_F(CheckpointDirectoryTest, ACommitDuringATakeoverIsResumedOrFenced) {
  Attempt mine = begin();
  for (std::uint64_t step = 1; step <= 50; ++step) {
    bool fenced = false;
    std::thread writer([&] {
      commit(step, mine);
      fenced = !directory_.check_newest(mine);
    });
    const AttemptRecord taker = directory_.begin_attempt("taker").value();
    writer.join();
    const bool taken_up = taker.resume == CheckpointId{.step = step, .attempt = mine};
    EXPECT_TRUE(taken_up || fenced) << "step " << step;
    mine = taker.attempt;
  }
}

TEST_F(CheckpointDirectoryTest, RemovalLeavesNothing) {
  const Attempt first = begin();
  commit(100, first);
  ASSERT_TRUE(directory_.remove({.step = 100, .attempt = first}));
  std::filesystem::create_directories(scratch_ / "step-200.attempt-1/manifest.json");
  ASSERT_TRUE(directory_.remove({.step = 200, .attempt = first}));
  EXPECT_TRUE(directory_.step_directories().value().empty());
}

TEST_F(CheckpointDirectoryTest, AnUnusableDirectoryIsNamedInOneLine) {
  EXPECT_TRUE(directory_.check_writable());
  write("file", "");
  const Status refused = CheckpointDirectory(scratch_ / "file").check_writable();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("cannot use checkpoint directory " + (scratch_ / "file") + ":"));
  EXPECT_FALSE(CheckpointDirectory("/proc").check_writable());
}

}  // namespace
}  // namespace muster
