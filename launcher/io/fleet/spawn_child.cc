#include "launcher/io/fleet/spawn_child.h"

#include <csignal>
#include <spawn.h>
#include <unistd.h>

#include "common/base/process_limits.h"

namespace muster::launcher {

namespace {

constexpr int kThird = 3;

// Owns posix_spawn's two argument objects.
struct SpawnRequest {
  SpawnRequest() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  SpawnRequest(const SpawnRequest&) = delete;
  SpawnRequest& operator=(const SpawnRequest&) = delete;
  ~SpawnRequest() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

// Gives the child a session of its own. No signal is blocked or ignored in the child.
void clean(posix_spawnattr_t& attributes) {
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

}  // namespace

Expected<pid_t> spawn_child(std::vector<std::string> words, const ChildStreams& streams,
                            const rlimit& descriptors) {
  SpawnRequest request;
  // posix_spawn copies the descriptors in this order. It must not overwrite a source before it has copied it.
  // This cannot happen, because all sources are above 3. Only streams.third may be 3 itself.
  posix_spawn_file_actions_adddup2(&request.files, streams.input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&request.files, streams.output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&request.files, streams.errors, STDERR_FILENO);
  if (streams.third >= 0) posix_spawn_file_actions_adddup2(&request.files, streams.third, kThird);
  posix_spawn_file_actions_addclosefrom_np(&request.files, streams.third >= 0 ? kThird + 1 : kThird);
  clean(request.attributes);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  rlimit own{};
  getrlimit(RLIMIT_NOFILE, &own);
  setrlimit(RLIMIT_NOFILE, &descriptors);
  const int error =
      posix_spawnp(&pid, argv.front(), &request.files, &request.attributes, argv.data(), environ);
  setrlimit(RLIMIT_NOFILE, &own);
  if (error != 0)
    return system_failure("cannot start " + words.front() + nearest_process_limit(error), error);
  return pid;
}

}  // namespace muster::launcher
