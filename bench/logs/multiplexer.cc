// The least that a merged output takes: one thread starts the ranks, reads their pipes, puts "rank: " before
// each line and writes whole lines to its output. It keeps no log files, watches nobody and survives nothing.
//
//   logs_multiplexer RANKS PROGRAM [ARGUMENT...]    (RANK is in each program's environment)
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

struct Rank {
  int pipe = -1;
  std::string prefix;
  std::string rest;  // of a line that has not ended
};

Rank start(int rank, char** command) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  setenv("RANK", std::to_string(rank).c_str(), 1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t pid = -1;
  if (posix_spawnp(&pid, command[0], &actions, nullptr, command, environ) != 0) std::exit(1);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  return {ends[0], std::to_string(rank) + ": ", ""};
}

void write_all(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t size = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (size < 0) std::exit(1);
    done += static_cast<std::size_t>(size);
  }
}

// Returns false at the end of the rank's output.
bool forward(Rank& rank) {
  static char buffer[64 << 10];
  static std::string out;
  const ssize_t size = read(rank.pipe, buffer, sizeof buffer);
  if (size <= 0) return false;
  out.clear();
  const char* const end = buffer + size;
  for (const char* at = buffer; at != end;) {
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    if (newline == nullptr) {
      rank.rest.append(at, end);
      break;
    }
    out += rank.prefix;
    out += rank.rest;
    rank.rest.clear();
    out.append(at, newline + 1);
    at = newline + 1;
  }
  write_all(out);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<Rank> ranks;
  for (int rank = 0; rank < std::atoi(argv[1]); ++rank) ranks.push_back(start(rank, argv + 2));
  std::vector<pollfd> waiting;
  for (const Rank& rank : ranks) waiting.push_back({rank.pipe, POLLIN, 0});
  for (std::size_t open = ranks.size(); open > 0;) {
    poll(waiting.data(), waiting.size(), -1);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (waiting[i].revents == 0 || forward(ranks[i])) continue;
      waiting[i].fd = -1;
      --open;
    }
  }
  while (wait(nullptr) > 0) {
  }
}
