// Kills a save, or makes it fail, at every system call. Afterwards the disk holds the earlier checkpoint or
// the new one, whole, and all ranks have learned the same outcome.
//
// This program defines its own open, write, pwrite, fallocate, ftruncate, fsync, rename, link, mkdir, stat,
// unlink, unlinkat and pthread_create, which replace the C library's, so that a child can die or fail in any
// of them. They act on scratch directories only: sockets and the system's files work as usual.
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/file.h"
#include "common/checkpoint/directory.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"
#include "tests/warnings.h"

namespace {

// kPowerLossOfBytes: names reach the disk at once, bytes when they are synced.
enum class Fault { kNone, kKill, kPowerLoss, kPowerLossOfBytes, kFailOnce, kFailFromNowOn };
std::atomic<Fault> fault = Fault::kNone;
std::atomic<int> calls_left = 0;
std::atomic<int> fault_errno = 0;
std::atomic<bool> no_threads = false;
std::atomic<bool> disk_hangs = false;
std::function<void()> meanwhile;  // another process's action, before the call that brings this to 0:
int calls_to_meanwhile = 0;

// The content that a power failure now would leave of a directory: each file's bytes and each directory's
// entries at their last sync, nothing else.
class Disk {
 public:
  void follow(const std::string& root) {
    root_ = root;
    follows_ = true;
  }
  bool forgets_syncs = false;

  void synced(int fd) {
    if (!follows_ || forgets_syncs) return;
    const std::lock_guard lock(mutex_);
    struct stat status{};
    syscall(SYS_fstat, fd, &status);
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    // Keeps the file open, so that no other file gets its inode number.
    const int held = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0));
    if (S_ISDIR(status.st_mode)) {
      auto& entries = directories_[status.st_ino];
      entries.clear();
      DIR* const list = opendir(path.c_str());
      while (const dirent* const entry = readdir(list)) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") entries[name] = {entry->d_ino, entry->d_type == DT_DIR};
      }
      closedir(list);
    } else {
      std::string content(static_cast<std::size_t>(status.st_size), 0);
      syscall(SYS_pread64, held, content.data(), content.size(), 0);
      files_[status.st_ino] = std::move(content);
    }
  }

  // Writes them to ROOT.after.
  void lose_power() {
    const std::lock_guard lock(mutex_);
    if (fault == Fault::kPowerLossOfBytes) return write_present(root_, root_ + ".after");
    struct stat status{};
    syscall(SYS_stat, root_.c_str(), &status);
    write_directory(status.st_ino, root_ + ".after");
  }

 private:
  struct Entry {
    ino_t number = 0;
    bool is_directory = false;
  };
  void write_directory(ino_t number, const std::string& path) {
    syscall(SYS_mkdir, path.c_str(), 0755);
    const auto entries = directories_.find(number);
    if (entries == directories_.end()) return;
    for (const auto& [name, entry] : entries->second) {
      const std::string inner = path + "/" + name;
      entry.is_directory ? write_directory(entry.number, inner) : write_file(entry.number, inner);
    }
  }
  // The directory's content at this moment, synced or not.
  void write_present(const std::string& from, const std::string& path) {
    syscall(SYS_mkdir, path.c_str(), 0755);
    DIR* const list = opendir(from.c_str());
    while (const dirent* const entry = list == nullptr ? nullptr : readdir(list)) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      const std::string to = path + "/" + name;
      entry->d_type == DT_DIR ? write_present(from + "/" + name, to) : write_file(entry->d_ino, to);
    }
    if (list != nullptr) closedir(list);
  }
  void write_file(ino_t number, const std::string& path) {
    const auto content = files_.find(number);  // none: the file is there and empty
    const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT, 0644));
    if (content != files_.end()) syscall(SYS_write, fd, content->second.data(), content->second.size());
    syscall(SYS_close, fd);
  }

  std::string root_;
  bool follows_ = false;
  std::mutex mutex_;
  std::map<ino_t, std::string> files_;
  std::map<ino_t, std::map<std::string, Entry>> directories_;
};
Disk disk;

bool loses_power(Fault kind) {
  return kind == Fault::kPowerLoss || kind == Fault::kPowerLossOfBytes;
}

// True if this call is to fail.
bool fails_here() {
  if (fault == Fault::kNone) return false;
  if (calls_to_meanwhile > 0 && --calls_to_meanwhile == 0) {
    const Fault mine = fault.exchange(Fault::kNone);
    meanwhile();
    fault = mine;
  }
  const int left = --calls_left;
  if (left > 0 || (left < 0 && fault != Fault::kFailFromNowOn)) return false;
  if (loses_power(fault)) disk.lose_power();
  if (fault == Fault::kKill || loses_power(fault)) raise(SIGKILL);
  errno = fault_errno;
  return true;
}

bool fails_here(const char* path) {
  return std::strstr(path, "muster-test-") != nullptr && fails_here();
}

bool fails_here(int fd) {
  struct stat status{};
  const bool of_a_disk =
      syscall(SYS_fstat, fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
  return of_a_disk && fails_here();
}

}  // namespace

extern "C" {
ssize_t write(int fd, const void* bytes, size_t count) {
  // Writes half of it, so that a kill leaves a torn file.
  if (fault == Fault::kKill && calls_left == 1) syscall(SYS_write, fd, bytes, count / 2);
  return fails_here(fd) ? -1 : syscall(SYS_write, fd, bytes, count);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  disk_hangs.wait(true);
  if (fault == Fault::kKill && calls_left == 1) syscall(SYS_pwrite64, fd, bytes, count / 2, offset);
  return fails_here(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, count, offset);
}
int fallocate(int fd, int mode, off_t offset, off_t length) {
  return fails_here(fd) ? -1 : static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, length));
}
int ftruncate(int fd, off_t length) noexcept {
  return fails_here(fd) ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, length));
}
int fsync(int fd) {
  if (fails_here(fd)) return -1;
  const int result = static_cast<int>(syscall(SYS_fsync, fd));
  if (result == 0) disk.synced(fd);
  return result;
}
int rename(const char* from, const char* to) noexcept {
  return fails_here(from) ? -1 : static_cast<int>(syscall(SYS_rename, from, to));
}
int link(const char* from, const char* to) noexcept {
  return fails_here(from) ? -1 : static_cast<int>(syscall(SYS_link, from, to));
}
int unlink(const char* path) noexcept {
  return fails_here(path) ? -1 : static_cast<int>(syscall(SYS_unlink, path));
}
int unlinkat(int directory, const char* path, int flags) noexcept {
  const bool fails = directory == AT_FDCWD ? fails_here(path) : fails_here(directory);
  return fails ? -1 : static_cast<int>(syscall(SYS_unlinkat, directory, path, flags));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return fails_here(path) ? -1 : static_cast<int>(syscall(SYS_mkdir, path, mode));
}
int stat(const char* path, struct stat* status) noexcept {
  return fails_here(path) ? -1 : static_cast<int>(syscall(SYS_stat, path, status));
}
// LibTorch brings its own std::filesystem, which uses the name from an older C library.
int __xstat(int /*version*/, const char* path, struct stat* status) noexcept {
  return stat(path, status);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) noexcept {
  if (no_threads) return EAGAIN;
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, body, argument);
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return fails_here(path) ? -1 : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
}

namespace muster {
namespace {

constexpr int kMixed = 100;  // exit codes of a child that restored
constexpr int kUnusable = 101;
constexpr int kMaxCalls = 200;

// Every parameter holds the step's number, so that a mixture of steps shows.
struct Numbered {
  explicit Numbered(const std::string& directory) : Numbered(init(), directory) {}
  explicit Numbered(const std::string& directory, int keep, std::int64_t elements = 0, int every = 1000)
      : Numbered(init(), directory, keep, elements, every) {}
  Numbered(const Job& a_job, const std::string& directory, int keep = 2, std::int64_t elements = 0,
           int every = 1000)
      : job(a_job),
        more(at::zeros({elements})),
        checkpoints(job, {.every = every, .directory = directory, .keep = keep}) {
    state.add("more", more);
  }
  bool save(std::int64_t step) {
    while (checkpoints.steps() < step) checkpoints.step(state);
    become(step);
    return checkpoints.save(state);
  }
  void become(std::int64_t step) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net.parameters()) parameter.fill_(static_cast<double>(step));
    more.fill_(static_cast<double>(step));
  }
  bool all_are(std::int64_t step) {
    for (const at::Tensor& parameter : net.parameters()) {
      if (!parameter.eq(static_cast<double>(step)).all().item<bool>()) return false;
    }
    return more.eq(static_cast<double>(step)).all().item<bool>();
  }
  Job job;
  NoiseDataset dataset{8};
  SmallNet net;
  torch::optim::SGD optimizer{net.parameters(), torch::optim::SGDOptions(0.1)};
  DataLoader<Example> loader{dataset, {}, 0, 1};
  at::Tensor more;
  Checkpointer checkpoints;
  TrainState state{net, optimizer, loader};
};

// Runs `body` in a child; returns its status as from wait().
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// Returns the step that a new attempt restores, which also saves a later step, as a restarted training would.
int restored_step(const std::string& directory, std::int64_t elements = 0) {
  const int status = in_child([&] {
    try {
      Numbered training(directory, /*keep=*/2, elements);
      const std::int64_t step = training.checkpoints.restore(training.state);
      if (!training.all_are(step)) return kMixed;
      if (!training.save(step + 1)) return kUnusable;
      return static_cast<int>(step);
    } catch (const std::exception&) {
      return kUnusable;
    }
  });
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CheckpointCrash, AKillAtAnyPointOfASaveLeavesTheOldOrTheNewCheckpoint) {
  int olds = 0;
  int news = 0;
  for (int call = 1;; ++call) {
    SCOPED_TRACE(call);
    ASSERT_LT(call, kMaxCalls);
    const ScratchDirectory scratch;
    const std::string directory = scratch / "checkpoints";
    const int status = in_child([&] {
      Numbered training(directory);
      if (!training.save(1)) return 1;
      calls_left = call;
      fault = Fault::kKill;
      return training.save(2) ? 0 : 2;
    });
    const int step = restored_step(directory);
    ASSERT_TRUE(step == 1 || step == 2) << step;
    ++(step == 1 ? olds : news);
    if (WIFEXITED(status)) {  // the save finished
      ASSERT_EQ(WEXITSTATUS(status), 0);
      EXPECT_EQ(step, 2);
      break;
    }
    ASSERT_EQ(WTERMSIG(status), SIGKILL);
  }
  EXPECT_GT(olds, 5);
  EXPECT_GT(news, 1);
}

struct Sweep {
  int points = 0;
  int lost = 0;  // no checkpoint, a mixed one, or a missing one that had been reported
};

// Keeps the many scratch directories of a sweep in memory, where a sync takes no time.
class InMemory {
 public:
  InMemory() {
    if (const char* const set = std::getenv("TMPDIR")) before_ = set;
    if (std::filesystem::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);
  }
  ~InMemory() { before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR"); }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;

 private:
  std::optional<std::string> before_;
};

// Makes some saves; the fault hits each call of the last one in turn.
void sweep(Fault kind, int saves, int keep, std::int64_t elements, bool forgets_syncs, Sweep& found) {
  for (bool reached = true; reached; ++found.points) {
    const int call = found.points + 1;
    const ScratchDirectory scratch;
    const std::string directory = scratch / "checkpoints";
    const int status = in_child([&] {
      if (loses_power(kind)) disk.follow(directory);
      Numbered training(directory, keep, elements);
      for (int step = 1; step < saves; ++step)
        if (!training.save(step)) return 1;
      disk.forgets_syncs = forgets_syncs;
      calls_left = call;
      fault = kind;
      const bool saved = training.save(saves);
      if (loses_power(kind)) disk.lose_power();
      fault = Fault::kNone;
      return saved ? 0 : 2;
    });
    reached = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    ASSERT_TRUE(reached || status == 0) << "status of an undisturbed save: " << status;
    const int step = restored_step(directory + (loses_power(kind) ? ".after" : ""), elements);
    if (step != saves && !(step == saves - 1 && reached)) ++found.lost;
    if (call > kMaxCalls) return;
  }
}

TEST(CheckpointCrash, ACrashOrPowerLossAtAnyCallOfASaveLeavesTheOldOrTheNewCheckpoint) {
  const InMemory quick;
  Sweep all;
  for (const Fault kind : {Fault::kKill, Fault::kPowerLoss, Fault::kPowerLossOfBytes}) {
    for (const int saves : {2, 3, 4, 5}) {
      for (const int keep : {1, 2}) {
        if (kind == Fault::kPowerLossOfBytes && keep == 2) continue;
        const bool large = saves == 2 && keep == 1 && kind == Fault::kPowerLoss;
        const std::int64_t elements = large ? 3 << 20 : 0;  // several chunks
        SCOPED_TRACE(fmt::format("fault {}, {} saves, keep {}", static_cast<int>(kind), saves, keep));
        Sweep one;
        sweep(kind, saves, keep, elements, /*forgets_syncs=*/false, one);
        EXPECT_EQ(one.lost, 0);
        EXPECT_GT(one.points, 20);
        EXPECT_LT(one.points, kMaxCalls);
        all.points += one.points;
      }
    }
  }
  EXPECT_GE(all.points, 500);
  RecordProperty("points", all.points);
}

// Shows that the sweep detects a loss.
TEST(CheckpointCrash, WithoutSyncsAPowerLossLosesWhatWasReported) {
  const InMemory quick;
  for (const Fault kind : {Fault::kPowerLoss, Fault::kPowerLossOfBytes}) {
    Sweep found;
    sweep(kind, 2, 1, 0, /*forgets_syncs=*/true, found);
    EXPECT_GT(found.lost, 0);
  }
}

TEST(CheckpointCrash, ASlowDiskDelaysStepsOnlyAtTheNextSaveWhichSaysSo) {
  const ScratchDirectory scratch;
  const std::string directory = scratch / "checkpoints";
  const int status = in_child([&] {
    const Warnings warnings;
    Numbered training(directory, /*keep=*/2, /*elements=*/3 << 20, /*every=*/10);
    disk_hangs = true;
    const auto step = [&] {
      training.become(training.checkpoints.steps() + 1);
      training.checkpoints.step(training.state);
    };
    while (training.checkpoints.steps() < 19) step();
    if (std::filesystem::exists(directory + "/step-10.attempt-1/manifest.json")) return 1;
    std::thread disk_goes_on([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      disk_hangs = false;
      disk_hangs.notify_all();
    });
    step();
    disk_goes_on.join();
    if (!training.checkpoints.wait()) return 2;
    const auto& said = warnings.lines();
    return said.size() == 1 && said[0].contains("at step 20 until the checkpoint of step 10") ? 0 : 3;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(restored_step(directory, 3 << 20), 20);
}

TEST(CheckpointCrash, AFullDiskCostsOneSaveAtMostAndIsReportedOnlyIfNotCommitted) {
  int failed_saves = 0;
  for (int call = 1;; ++call) {
    SCOPED_TRACE(call);
    ASSERT_LT(call, kMaxCalls);
    const ScratchDirectory scratch;
    const std::string directory = scratch / "checkpoints";
    const int status = in_child([&] {
      Numbered training(directory);
      if (!training.save(1)) return 1;
      calls_left = call;
      fault_errno = ENOSPC;
      fault = Fault::kFailOnce;
      const bool saved = training.save(2);
      const bool reached = calls_left <= 0;
      fault = Fault::kNone;
      if (!training.save(3)) return 2;
      return !reached ? 3 : saved ? 4 : 5;
    });
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_GE(WEXITSTATUS(status), 3);
    ASSERT_EQ(restored_step(directory), 3);
    if (WEXITSTATUS(status) == 3) break;
    if (WEXITSTATUS(status) == 5) ++failed_saves;
  }
  EXPECT_GT(failed_saves, 5);
}

// Alternates saves with and without a failing call until the faulty rank has no further call that could fail.
// An alarm ends a rank that waits for a message that never arrives.
void save_with_faults(Job& job, const std::string& directory, int faulty_rank, Fault kind) {
  Numbered training(job, directory);
  require(training.save(1), "the first save fails");
  int failed_saves = 0;
  std::int64_t step = 1;
  bool reached = true;
  for (int call = 1; reached; ++call) {
    require(call < kMaxCalls, "an end of the calls of a save");
    alarm(60);
    job.barrier();
    calls_left = call;
    fault = job.rank() == faulty_rank ? kind : Fault::kNone;
    const bool saved = training.save(++step);
    fault = Fault::kNone;
    const int savers = all_reduce(job, saved ? 1 : 0);
    require(savers == 0 || savers == 2, fmt::format("one outcome on both ranks when call {} fails", call));
    failed_saves += saved ? 0 : 1;
    const std::string manifest = fmt::format("{}/step-{}.attempt-1/manifest.json", directory, step);
    require(!saved || std::filesystem::exists(manifest), "a manifest of what is said to be committed");
    reached = all_reduce(job, job.rank() == faulty_rank && calls_left <= 0 ? 1 : 0) == 1;
    require(training.save(++step), fmt::format("the save after the one in which call {} failed", call));
  }
  require(failed_saves > 3, "saves that fail");
  require(training.checkpoints.restore(training.state) == step && training.all_are(step), "the last save");
}

TEST(CheckpointCrash, AllRanksLearnOfOneRanksErrorWhichCostsOneSaveAtMost) {
  const std::vector<std::pair<int, Fault>> kinds{{ENOSPC, Fault::kFailOnce},
                                                 {EACCES, Fault::kFailFromNowOn},
                                                 {EIO, Fault::kFailFromNowOn},
                                                 {EROFS, Fault::kFailFromNowOn},
                                                 {ESTALE, Fault::kFailFromNowOn}};
  for (const auto& [error, kind] : kinds) {
    for (const int faulty_rank : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} on rank {}", strerrorname_np(error), faulty_rank));
      const ScratchDirectory scratch;
      fault_errno = error;
      EXPECT_NO_THROW(spawn(
          [&, kind](Job& job) {
            freopen("/dev/null", "w", stderr);
            save_with_faults(job, scratch / "checkpoints", faulty_rank, kind);
          },
          2));
    }
  }
}

TEST(CheckpointCrash, ARankThatCannotStartAThreadFailsTheSaveOnAll) {
  const ScratchDirectory scratch;
  EXPECT_NO_THROW(spawn(
      [&](Job& job) {
        freopen("/dev/null", "w", stderr);
        alarm(60);  // less than the others' patience
        for (int round = 0; round < 4; ++round) {
          Numbered training(job, scratch / fmt::format("{}", round));
          if (round >= 2) training.checkpoints.step(training.state);  // has a writer, but no disk thread
          training.checkpoints.wait();
          job.barrier();
          no_threads = job.rank() == round % 2;
          const bool saved = training.save(1);
          no_threads = false;
          require(!saved, "a save for which a rank has no thread");
          require(training.save(2), "the next one");
        }
      },
      2));
}

TEST(CheckpointCrash, AKillWhileAnAttemptBeginsLeavesAUsableDirectory) {
  for (int call = 1;; ++call) {
    SCOPED_TRACE(call);
    ASSERT_LT(call, kMaxCalls);
    const ScratchDirectory scratch;
    const std::string directory = scratch / "checkpoints";
    ASSERT_EQ(in_child([&] { return Numbered(directory).save(1) ? 0 : 1; }), 0);
    const int status = in_child([&] {
      calls_left = call;
      fault = Fault::kKill;
      const Numbered training(directory);
      fault = Fault::kNone;
      return 0;
    });
    ASSERT_EQ(restored_step(directory), 1);
    if (WIFEXITED(status)) break;
  }
}

// Commits as this attempt's writer does. Returns true if it may report the commit.
bool commit(const CheckpointDirectory& directory, CheckpointId id) {
  const CheckpointManifest manifest{
      .format = 1,
      .id = id,
      .job = "job",
      .world_size = 1,
      .files = {{.name = "rank-00000.safetensors", .size_bytes = 3, .xxh3 = "x"}}};
  return make_directories(directory.path_of(id)) &&
         write_file_durably(directory.manifest_path(id), encode_manifest(manifest)) &&
         directory.check_newest(id.attempt);
}

// For every pair of calls: attempt 1 commits, then the process that takes over is killed.
TEST(CheckpointCrash, AReportedCommitSurvivesAKillOfTheNextAttemptAtItsStart) {
  int reported_count = 0;
  bool killed = true;
  for (int commit_at = 1; killed; ++commit_at) {
    killed = false;
    for (int kill_at = commit_at;; ++kill_at) {
      SCOPED_TRACE(fmt::format("commit at call {}, kill at {}", commit_at, kill_at));
      ASSERT_LT(kill_at, kMaxCalls);
      const ScratchDirectory scratch;
      const CheckpointDirectory directory(scratch / "checkpoints");
      const CheckpointId old{.step = 1, .attempt = Attempt(1)};
      const CheckpointId raced{.step = 2, .attempt = Attempt(1)};
      ASSERT_EQ(directory.begin_attempt("job").value().attempt, Attempt(1));
      ASSERT_TRUE(commit(directory, old));
      const int status = in_child([&] {
        meanwhile = [&] {
          if (commit(directory, raced)) write_bytes(scratch / "reported", "");
        };
        calls_to_meanwhile = commit_at;
        calls_left = kill_at;
        fault = Fault::kKill;
        return directory.begin_attempt("taker") ? 0 : 1;
      });
      const bool reported = std::filesystem::exists(scratch / "reported");
      reported_count += reported ? 1 : 0;
      const auto resume = directory.begin_attempt("next").value().resume;
      EXPECT_TRUE(resume == raced || (resume == old && !reported));
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
        break;
      }
      killed = true;
    }
  }
  EXPECT_GT(reported_count, 5);
}

}  // namespace
}  // namespace muster
