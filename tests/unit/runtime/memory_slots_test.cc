// Memory for checkpoints that an agent owns: who gets how much, and that a worker gets the same bytes.
#include "agent/io/workers/memory_slots.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "agent/io/workers/run_directory.h"
#include "agent/io/workers/worker_socket.h"
#include "runtime/rank/reports.h"

namespace muster::agent {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

std::string refusal(const MemorySlots::Answer& answer) {
  return json::parse(answer.text).value("refused", "");
}

TEST(MemorySlots, ARankGetsTwoThatNobodyCanResize) {
  MemorySlots slots;
  slots.keep(Rank(0), 8);
  slots.set_limit(4 * kMiB);
  const auto answer = slots.answer(Rank(3), kMiB);
  EXPECT_EQ(json::parse(answer.text), json({{"v", 1}, {"type", "memory_slots"}, {"ranks", {3, 3}}}));
  ASSERT_EQ(answer.fds.size(), 2u);
  struct stat status{};
  ASSERT_EQ(fstat(answer.fds[0], &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kMiB);
  EXPECT_NE(ftruncate(answer.fds[0], 0), 0);
  EXPECT_NE(ftruncate(answer.fds[0], 2 * kMiB), 0);
  EXPECT_EQ(slots.answer(Rank(3), kMiB).fds, answer.fds) << "the same again";
  EXPECT_EQ(slots.answer(Rank(3), 0).fds, answer.fds);
}

TEST(MemorySlots, AllOfThemTogetherKeepToTheLimit) {
  MemorySlots slots;
  slots.keep(Rank(0), 2);
  EXPECT_THAT(refusal(slots.answer(Rank(0), kMiB)), HasSubstr("without --memory-tier"));
  slots.set_limit(5 * kMiB);
  EXPECT_EQ(slots.answer(Rank(0), kMiB).fds.size(), 2u);
  EXPECT_EQ(refusal(slots.answer(Rank(1), 2 * kMiB)),
            "--memory-tier of 5 MiB has no room for two of 2 MiB beside the 2 MiB of other ranks");
  EXPECT_THAT(refusal(slots.answer(Rank(1), ~std::uint64_t{0})), HasSubstr("has no room"));
  EXPECT_EQ(slots.answer(Rank(0), 2 * kMiB).fds.size(), 2u) << "its own two make room";
  EXPECT_NE(refusal(slots.answer(Rank(0), 3 * kMiB)), "");
  EXPECT_EQ(slots.answer(Rank(1), 0).fds.size(), 2u) << "a refusal leaves all as it is";
}

TEST(MemorySlots, ThoseOfRanksThatTheNodeHasNoMoreAreFreed) {
  MemorySlots slots;
  slots.keep(Rank(0), 8);
  slots.set_limit(4 * kMiB);
  const int gone = slots.answer(Rank(2), kMiB).fds.at(0);
  slots.answer(Rank(3), kMiB);
  slots.keep(Rank(3), 2);
  EXPECT_EQ(json::parse(slots.answer(Rank(4), kMiB).text)["ranks"], json({3, 3, 4, 4}));
  EXPECT_EQ(refusal(slots.answer(Rank(5), kMiB)), "rank 5 is not on this node");
  slots.keep(Rank(0), 1);
  EXPECT_TRUE(slots.answer(Rank(0), 0).fds.empty());
  EXPECT_EQ(fcntl(gone, F_GETFD), -1);
}

struct Running {
  explicit Running(asio::io_context& a_context) : context(a_context), thread([this] { context.run(); }) {}
  ~Running() { context.stop(); }
  asio::io_context& context;
  std::jthread thread;
};

// A worker and its agent, over the real socket.
TEST(MemorySlots, AWorkerReadsWhatAnotherHasWrittenThere) {
  asio::io_context context;
  MemorySlots slots;
  slots.keep(Rank(0), 8);
  slots.set_limit(4 * kMiB);
  const auto directory = RunDirectory::make().value();
  std::unique_ptr<WorkerSocket> socket;
  const auto hear = [&](const Report& report, const std::string& sender) {
    if (report.message.kind != wire::ReportKind::kMemorySlots) return;
    const auto answer = slots.answer(report.message.rank, report.slot_bytes);
    EXPECT_TRUE(socket->send(sender, answer.text, answer.fds));
  };
  socket = WorkerSocket::open(context.get_executor(), directory->path(), hear).value();
  asio::co_spawn(context, socket->receive_all(), asio::detached);
  const Running agent(context);
  {
    const muster::Reports writer(socket->path(), 1, 1);
    const auto given = writer.memory_slots(kMiB);
    ASSERT_TRUE(given) << given.error().message();
    ASSERT_EQ(given->size(), 2u);
    EXPECT_EQ(pwrite(given->at(1).fd.get(), "kept", 4, 100), 4);
    EXPECT_TRUE(fcntl(given->at(0).fd.get(), F_GETFD) & FD_CLOEXEC);
  }
  const muster::Reports reader(socket->path(), 0, 2);
  const auto given = reader.memory_slots(0);
  ASSERT_TRUE(given) << given.error().message();
  ASSERT_EQ(given->size(), 2u);
  EXPECT_EQ(given->at(1).rank, 1);
  char bytes[4];
  EXPECT_EQ(pread(given->at(1).fd.get(), bytes, 4, 100), 4);
  EXPECT_EQ(std::string(bytes, 4), "kept");
  const auto refused = reader.memory_slots(kMiB + 4096);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("has no room for two of 1 MiB beside the 2 MiB"));
}

TEST(MemorySlots, WithoutAnAgentAWorkerIsToldAtOnce) {
  const auto given = muster::Reports("", 0, 1).memory_slots(kMiB);
  ASSERT_FALSE(given);
  EXPECT_THAT(given.error().message(), HasSubstr("not started by launch"));
  const auto left = muster::Reports("/nowhere/agent.sock", 0, 1).memory_slots(kMiB);
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().message(), "the agent is gone");
}

}  // namespace
}  // namespace muster::agent
