// Checks that the nodes share the checkpoint directory. For each node, a process writes a file there. Then,
// for each node, another process reads the files of the others.
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "launcher/commands/checkpoint_use.h"
#include "launcher/commands/checks.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

using enum Finding::Result;

std::string nonce_path(const std::string& directory, std::uint64_t nonce, std::int32_t node) {
  return fmt::format("{}/.check-{:016x}.node{}", directory, nonce, node);
}

std::string content_of(std::uint64_t nonce, std::int32_t node) {
  return fmt::format("{:016x} node{}\n", nonce, node);
}

// Runs in a process of its own for the node. Writes the file that marks this node, and syncs it. Returns 0 or
// an errno.
int leave_mark(const std::string& directory, std::uint64_t nonce, std::int32_t node) {
  const std::string path = nonce_path(directory, nonce, node);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return errno;
  const std::string content = content_of(nonce, node);
  if (write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) return EIO;
  return fsync(fd.get()) == 0 ? 0 : errno;
}

// Runs in another process for the node `reader`. Reads the marks of all nodes. If there are more than
// kMostRead nodes, reads only kMostRead marks, beginning with that of this node.
int read_marks(const std::string& directory, std::uint64_t nonce, std::int32_t reader, std::int32_t nodes) {
  constexpr std::int32_t kMostRead = 256;
  for (std::int32_t i = 0; i < std::min(nodes, kMostRead); ++i) {
    const std::int32_t node = (reader + i) % nodes;
    const auto content = read_regular_file(nonce_path(directory, nonce, node), 64);
    if (!content) return ENOENT;
    if (*content != content_of(nonce, node)) return EIO;
  }
  return 0;
}

// Runs `work` once for each node, each time in a process of its own. At most kAtOnce of these processes run
// at a time, because all of them are on this machine. Returns the first errno, or 0 if there was none.
template <class Work>
int in_a_process_each(std::int32_t nodes, Work work) {
  constexpr std::int32_t kAtOnce = 64;
  for (std::int32_t begin = 0; begin < nodes; begin += kAtOnce) {
    std::vector<pid_t> pids;
    for (std::int32_t node = begin; node < std::min(begin + kAtOnce, nodes); ++node) {
      const pid_t pid = fork();
      if (pid == 0) _exit(work(node));
      pids.push_back(pid);
    }
    int first = 0;
    for (const pid_t pid : pids) {
      int status = 0;
      const bool ended = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
      const int error = ended ? WEXITSTATUS(status) : EAGAIN;
      if (first == 0) first = error;
    }
    if (first != 0) return first;
  }
  return 0;
}

// Returns the directories that do not exist yet: first `path`, then its parents. check_checkpoints() creates
// these directories, and removes them at its end.
std::vector<std::string> missing_parts_of(std::filesystem::path path) {
  std::vector<std::string> missing;
  std::error_code error;
  for (; !std::filesystem::exists(path, error) && path.has_relative_path(); path = path.parent_path())
    missing.push_back(path.string());
  return missing;
}

Finding finding_of(const std::string& directory, int error, std::int32_t nodes) {
  const std::string who = nodes == 1 ? "its node" : fmt::format("each of {} nodes", nodes);
  if (error == 0)
    return {kOk, "checkpoints", fmt::format("{} writes, syncs and reads in {}", who, directory)};
  return {kFail, "checkpoints", fmt::format("{}: {}", directory, std::generic_category().message(error)),
          "name a directory that every node can write to and that is the same on all"};
}

}  // namespace

std::vector<Finding> check_checkpoints(const Plan& plan) {
  const std::string& directory = plan.job.checkpoint_directory;
  if (directory.empty())
    return {
        judge_clock(unix_now(), std::nullopt),
        {kOk, "checkpoints", "no --checkpoint-dir: a restarted job has no Muster checkpoint to resume from"}};
  const auto missing = missing_parts_of(directory);
  if (const Status made = make_directories(directory); !made)
    return {judge_clock(unix_now(), std::nullopt),
            {kFail, "checkpoints", made.error().message(), "name a directory that launch can create"}};
  std::uint64_t nonce = 0;
  (void)getrandom(&nonce, sizeof nonce, 0);
  const auto nodes = static_cast<std::int32_t>(plan.nodes.size());
  int error = in_a_process_each(nodes, [&](std::int32_t node) { return leave_mark(directory, nonce, node); });
  if (error == 0)
    error = in_a_process_each(nodes,
                              [&](std::int32_t node) { return read_marks(directory, nonce, node, nodes); });
  struct stat status{};
  std::optional<double> written;
  if (stat(nonce_path(directory, nonce, 0).c_str(), &status) == 0)
    written = static_cast<double>(status.st_mtim.tv_sec);
  const Finding clock = judge_clock(unix_now(), written);
  for (std::int32_t node = 0; node < nodes; ++node) unlink(nonce_path(directory, nonce, node).c_str());
  for (const std::string& made : missing) rmdir(made.c_str());
  return {clock, finding_of(directory, error, nodes)};
}

std::optional<Finding> check_checkpoint_use(const Options& options) {
  const auto use = last_use_of(options);
  if (!use) return std::nullopt;
  using enum CheckpointUse::Kind;
  if (use->kind == kRefused) return Finding{kFail, "checkpoint use", use->text, std::string(kUseAdvice)};
  return Finding{use->kind == kOver ? kOk : kWarn, "checkpoint use", use->text};
}

}  // namespace muster::launcher
