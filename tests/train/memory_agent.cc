#include "tests/train/memory_agent.h"

#include <csignal>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/io/workers/memory_slots.h"
#include "agent/io/workers/run_directory.h"
#include "agent/io/workers/worker_socket.h"
#include "common/base/check.h"

namespace muster {

namespace {

[[noreturn]] void give_memory(std::uint64_t limit_bytes, int path_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  asio::io_context context;
  agent::MemorySlots slots;
  slots.set_limit(limit_bytes);
  slots.keep(Rank(0), 8);
  const auto directory = agent::RunDirectory::make().value();
  std::unique_ptr<agent::WorkerSocket> socket;
  const auto hear = [&](const agent::Report& report, const std::string& sender) {
    if (report.message.kind != wire::ReportKind::kMemorySlots) return;
    const auto answer = slots.answer(report.message.rank, report.slot_bytes);
    CHECK(socket->send(sender, answer.text, answer.fds));
  };
  socket = agent::WorkerSocket::open(context.get_executor(), directory->path(), hear).value();
  const std::string path = socket->path();
  CHECK(write(path_fd, path.data(), path.size()) == static_cast<ssize_t>(path.size()));
  asio::co_spawn(context, socket->receive_all(), asio::detached);
  context.run();
  _exit(1);
}

}  // namespace

MemoryAgent::MemoryAgent(std::uint64_t limit_bytes) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) give_memory(limit_bytes, ends[1]);
  close(ends[1]);
  char path[256];
  const ssize_t size = read(ends[0], path, sizeof path);
  close(ends[0]);
  CHECK(size > 0);
  socket_.assign(path, static_cast<std::size_t>(size));
}

MemoryAgent::~MemoryAgent() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  std::filesystem::remove_all(std::filesystem::path(socket_).parent_path());
}

}  // namespace muster
