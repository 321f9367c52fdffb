// A rank for warm starts, without torch: `warm_rank BEFORE... -- AFTER...` does some actions before the fork
// and others after it. With the action "arguments" before the fork, it takes the actions after it from its
// own arguments, which may differ from the template's.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "common/base/process.h"
#include "runtime/rank/warm/template.h"

namespace {

FILE* list = nullptr;

void before(const std::string& what) {
  const std::string value = what.substr(what.find('=') + 1);
  if (what == "thread") std::thread([] { pause(); }).detach();
  if (what == "socket") (void)!socket(AF_UNIX, SOCK_STREAM, 0);
  if (what == "shared") mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (what == "unlinked") (void)!tmpfile();
  if (what == "exit") _exit(3);
  if (what == "print") std::printf("printed before init\n");  // not flushed
  if (what == "handler") std::signal(SIGTERM, [](int) { _exit(42); });
  if (what.starts_with("chdir=")) (void)!chdir(value.c_str());
  if (what.starts_with("lock=")) flock(open(value.c_str(), O_RDONLY), LOCK_EX);
  if (what.starts_with("list=")) {
    list = fopen(value.c_str(), "r");
    setvbuf(list, nullptr, _IONBF, 0);
    fgetc(list), fgetc(list);
  }
}

const char* value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "(unset)" : value;
}

int after(const std::string& what) {
  if (what == "ready") std::printf("ready\n");
  if (what == "environment") {
    for (char** entry = environ; *entry != nullptr; ++entry) std::puts(*entry);
  }
  if (what == "place") {
    int signal = 0;
    prctl(PR_GET_PDEATHSIG, &signal);
    char name[17] = {};
    prctl(PR_GET_NAME, name);
    char directory[4096];
    std::printf("parent %d own group %d death signal %d name %s rank %s directory %s\n", getppid(),
                getpgrp() == getpid(), signal, name, value_of("RANK"), getcwd(directory, sizeof directory));
  }
  if (what.starts_with("say=")) std::puts(what.c_str() + 4);
  if (what == "line") {
    char line[64] = "(none)\n";
    if (fgets(line, sizeof line, list) == nullptr) return 1;
    std::printf("line %s", line);
  }
  std::fflush(stdout);
  if (what == "rank_code") return std::atoi(value_of("RANK"));
  if (what == "kill-template") {
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(process.path().filename().c_str());
      std::string name;
      std::getline(std::ifstream(process.path() / "comm"), name);
      if (name == "muster-template" && muster::parent_of(pid) == getppid()) kill(pid, SIGKILL);
    }
  }
  if (what == "segv") std::raise(SIGSEGV);
  if (what == "kill") std::raise(SIGKILL);
  if (what == "orphan") {
    const pid_t child = fork();
    if (child == 0) setsid();
    if (child != 0) {
      std::printf("agent %d orphan %d\n", getppid(), child);
      std::fflush(stdout);
    }
    for (;;) pause();
  }
  while (what == "wait") pause();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto actions_after = [&words] { return std::ranges::find(words, "--"); };
  std::for_each(words.begin(), actions_after(), before);
  const bool takes_arguments = std::find(words.begin(), actions_after(), "arguments") != actions_after();
  muster::warm::serve_as_template({}, takes_arguments ? &words : nullptr);
  for (auto at = actions_after() + 1; at != words.end(); ++at) {
    const int code = after(*at);
    if (code != 0) return code;
  }
  return 0;
}
