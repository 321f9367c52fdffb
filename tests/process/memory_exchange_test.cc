// Copies of slots between agents, over their real connections.
#include "agent/io/workers/memory_exchange.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "common/checkpoint/memory_slot.h"
#include "common/net/tls.h"

namespace muster::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::uint64_t kFileBytes = kChunkBytes + 1000;
constexpr std::uint64_t kSlotBytes = 2 * kChunkBytes + (64 << 10) + kSlotPage;
constexpr std::uint64_t kAmple = 16 * kSlotBytes;
constexpr Attempt kAttempt{3};

void put(int fd, std::string_view bytes, std::uint64_t offset) {
  EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
}

// Saves as the runtime does.
void write_slot(int fd, int rank, CheckpointId id, char letter) {
  std::string file(2 * kChunkBytes, '\0');
  std::fill_n(file.begin(), kFileBytes, letter);
  ManifestFile described{.name = "slot", .size_bytes = kSlotBytes};
  described.chunks.resize((kSlotBytes + kChunkBytes - 1) / kChunkBytes);
  for (std::size_t i = 0; i < 2; ++i)
    described.chunks[i] = digest_of(std::string_view(file).substr(i * kChunkBytes, kChunkBytes));
  RankContents contents;
  contents.files = {described};
  const std::string text = encode_rank_contents(contents);
  SlotHeader header{.state = SlotHeader::kComplete,
                    .attempt = id.attempt.value(),
                    .step = id.step,
                    .rank = rank,
                    .world_size = 2,
                    .directory = {},
                    .file_bytes = kFileBytes,
                    .contents_at = 2 * kChunkBytes,
                    .contents_bytes = text.size(),
                    .contents = digest_of(text),
                    .digest = {}};
  header.digest = header.own_digest();
  put(fd, file, 0);
  put(fd, text, header.contents_at);
  put(fd, {reinterpret_cast<const char*>(&header), sizeof header}, kSlotBytes - kSlotPage);
}

// The memory of node N's agent, which has only rank N.
struct Agent {
  explicit Agent(int node, std::uint64_t limit = kAmple, unsigned incarnation = 1)
      : id{NodeId(node), Incarnation(incarnation)} {
    slots.set_limit(limit);
    slots.keep(Rank(node), 1);
  }
  // Saves into slot 0 or 1 of its rank.
  void save(int slot, std::uint64_t step, char letter, Attempt attempt = kAttempt) {
    const Rank rank(id.node.value());
    write_slot(slots.answer(rank, kSlotBytes).fds.at(static_cast<std::size_t>(slot)), rank.value(),
               {step, attempt}, letter);
    exchange.saved(rank, step);
  }
  bool eventually(const std::function<bool()>& holds) {
    const TimePoint until = Clock::now() + 20s;
    while (!holds() && Clock::now() < until) usleep(1000);
    return holds();
  }
  bool has(int rank, std::uint64_t step) {
    return eventually([&] {
      return std::ranges::any_of(
          slots.held(), [&](const Copy& each) { return each.rank == Rank(rank) && each.id.step == step; });
    });
  }
  bool has_fetched() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, [this] { return fetched_count > 0; });
  }

  AgentId id;
  std::mutex mutex;
  std::condition_variable changed;
  int fetched_count = 0;
  std::vector<std::string> remarks;
  MemorySlots slots;
  MemoryExchange exchange{{.slots = slots,
                           .own = id,
                           .on_fetched =
                               [this] {
                                 const std::lock_guard lock(mutex);
                                 ++fetched_count;
                                 changed.notify_all();
                               },
                           .on_remark =
                               [this](const std::string& what) {
                                 const std::lock_guard lock(mutex);
                                 remarks.push_back(what);
                               }}};
};

// `caller` connects to `called`; each keeps copies of the other's slots.
void join(Agent& caller, Agent& called, bool caller_lacks = false, const net::Key& key = net::make_key(),
          Attempt attempt = kAttempt) {
  const auto port = called.exchange.listen("127.0.0.1");
  ASSERT_TRUE(port) << port.error().message();
  const auto as_seen = [&](const Agent& other, std::int32_t at, bool has_ours) {
    return wire::Neighbour{.node = other.id.node,
                           .incarnation = other.id.incarnation,
                           .address = at == 0 ? "" : "127.0.0.1",
                           .port = at,
                           .kept_count = 1,
                           .first_rank = Rank(other.id.node.value()),
                           .has_ours = has_ours,
                           .key = net::to_hex(key)};
  };
  caller.exchange.begin("j", attempt, {as_seen(called, *port, caller_lacks)});
  called.exchange.begin("j", attempt, {as_seen(caller, 0, false)});
}

// Node 0 was a neighbour and is gone; its copy of step 10 is still held.
void lose_node_0(Agent& holder) {
  {
    Agent lost(0);
    join(lost, holder);
    lost.save(0, 10, 'a');
    ASSERT_TRUE(holder.has(0, 10));
  }
  holder.exchange.end();
}

std::string bytes_of(Agent& agent, const Copy& copy, std::size_t count) {
  std::string bytes(count, '\0');
  const UniqueFd fd = agent.slots.open(copy);
  EXPECT_TRUE(fd && read_slot(fd.get(), 0, bytes.data(), count));
  return bytes;
}

TEST(MemoryExchange, EachKeepsTheTwoNewestStepsOfTheOther) {
  Agent one(0), other(1);
  one.save(0, 10, 'a');
  join(one, other);
  ASSERT_TRUE(other.has(0, 10)) << "what was there before they met";
  other.save(0, 10, 'b');
  ASSERT_TRUE(one.has(1, 10));
  one.save(1, 12, 'c');
  ASSERT_TRUE(other.has(0, 12));
  const Copy copy{Rank(0), {.step = 12, .attempt = kAttempt}, kSlotBytes};
  EXPECT_EQ(bytes_of(other, copy, kFileBytes), std::string(kFileBytes, 'c'));
  one.save(0, 14, 'd');
  ASSERT_TRUE(other.has(0, 14));
  EXPECT_EQ(other.slots.held().size(), 3u) << "its own, and two of the other's";
  EXPECT_FALSE(other.slots.open({Rank(0), {.step = 10, .attempt = kAttempt}, kSlotBytes}));
}

TEST(MemoryExchange, WhoLacksItsRanksGetsThemBack) {
  Agent holder(1);
  ASSERT_NO_FATAL_FAILURE(lose_node_0(holder));
  holder.slots.keep(Rank(1), 1);
  Agent next(0, kAmple, 2);
  join(next, holder, true, net::make_key(), Attempt(4));
  ASSERT_TRUE(next.has_fetched());
  EXPECT_FALSE(next.exchange.is_fetching());
  const auto answer = next.slots.answer(Rank(0), 0);
  ASSERT_EQ(answer.fds.size(), 2u);
  EXPECT_EQ(read_slot_header(answer.fds[0])->step, 10u);
  EXPECT_FALSE(read_slot_header(answer.fds[1]));
  EXPECT_EQ(slot_bytes(answer.fds[1]), kSlotBytes);
}

TEST(MemoryExchange, WhatARankGoesOnFromIsCopiedToANewNeighbour) {
  Agent one(0), other(1);
  one.save(0, 10, 'a', Attempt(2));
  one.save(1, 12, 'b', Attempt(2));
  join(one, other);
  one.exchange.saved(Rank(0), 10);  // not all had step 12
  ASSERT_TRUE(other.has(0, 10));
  EXPECT_EQ(other.slots.held().size(), 1u);
}

TEST(MemoryExchange, ADamagedCopyIsNotTakenAndTheUserIsTold) {
  Agent holder(1);
  ASSERT_NO_FATAL_FAILURE(lose_node_0(holder));
  put(holder.slots.open({Rank(0), {.step = 10, .attempt = kAttempt}, kSlotBytes}).get(), "x",
      kChunkBytes + 9);
  Agent next(0, kAmple, 2);
  join(next, holder, true);
  ASSERT_TRUE(next.has_fetched());
  EXPECT_THAT(next.slots.held(), IsEmpty());
  const std::lock_guard lock(next.mutex);
  EXPECT_THAT(next.remarks, ElementsAre(HasSubstr("cannot use the copy of step 10 that node1 has: what rank "
                                                  "0 holds in memory is damaged")));
}

TEST(MemoryExchange, AStepThatIsOverwrittenWhileItIsCopiedIsDropped) {
  Agent one(0), other(1);
  const auto fds = one.slots.answer(Rank(0), kSlotBytes).fds;
  write_slot(fds[0], 0, {10, kAttempt}, 'a');
  put(fds[0], "x", 100);  // as if a save of step 14 had begun there
  join(one, other);
  one.exchange.saved(Rank(0), 10);
  one.save(1, 12, 'b');
  ASSERT_TRUE(other.has(0, 12));
  EXPECT_EQ(other.slots.held().size(), 1u);
}

TEST(MemoryExchange, WithoutRoomNothingIsKeptAndTheUserIsToldOnce) {
  Agent one(0), other(1, 3 * kSlotBytes - 1);
  other.save(0, 10, 'b');  // two slots
  join(one, other);
  one.save(0, 10, 'a');
  one.save(1, 12, 'a');
  ASSERT_TRUE(one.has(1, 10));
  ASSERT_TRUE(other.eventually([&] {
    const std::lock_guard lock(other.mutex);
    return !other.remarks.empty();
  }));
  EXPECT_EQ(other.slots.held().size(), 1u);
  const std::lock_guard lock(other.mutex);
  EXPECT_THAT(other.remarks, ElementsAre(HasSubstr("keeps no copy of what rank 0 of node0 holds in memory: "
                                                   "--memory-tier has no room for one of 8 MiB")));
}

TEST(MemoryExchange, NobodyIsWaitedForWhoIsGoneOrHasAnotherKey) {
  Agent holder(1);
  Agent stranger(0);
  wire::Neighbour of_old{.node = NodeId(1),
                         .incarnation = Incarnation(1),
                         .address = "127.0.0.1",
                         .port = holder.exchange.listen("127.0.0.1").value(),
                         .kept_count = 0,
                         .first_rank = Rank(1),
                         .has_ours = true,
                         .key = net::to_hex(net::make_key())};
  holder.exchange.begin("j", kAttempt,
                        {{.node = NodeId(0),
                          .incarnation = Incarnation(1),
                          .address = "",
                          .kept_count = 0,
                          .first_rank = Rank(0),
                          .key = net::to_hex(net::make_key())}});
  stranger.exchange.begin("j", kAttempt, {of_old});
  EXPECT_TRUE(stranger.has_fetched());
  holder.exchange.end();
  Agent late(0);
  late.exchange.begin("j", kAttempt, {of_old});
  EXPECT_TRUE(late.has_fetched()) << "nobody listens there any more";
  EXPECT_THAT(late.slots.held(), IsEmpty());
}

// The second attempt begins while the thread still begins the first.
TEST(MemoryExchange, WhatOneAttemptEndsLateIsNotTheNextOnes) {
  MemorySlots slots;
  slots.keep(Rank(0), 1);
  std::promise<void> first_remarks, second_has_begun, second_remarks;
  int remark_count = 0;  // for the thread only
  std::atomic<int> fetched_count = 0;
  MemoryExchange exchange(
      {.slots = slots,
       .own = {NodeId(0), Incarnation(1)},
       .on_fetched = [&] { ++fetched_count; },
       .on_remark =
           [&](const std::string& what) {
             EXPECT_THAT(
                 what,
                 HasSubstr("this node and node1 copy nothing between their memories: its key is not valid"));
             if (++remark_count == 2) return second_remarks.set_value();
             first_remarks.set_value();
             second_has_begun.get_future().wait();
           }});
  const wire::Neighbour without_key{
      .node = NodeId(1), .address = "", .first_rank = Rank(0), .has_ours = true, .key = "none"};
  wire::Neighbour that_never_calls{
      .node = NodeId(2), .address = "", .first_rank = Rank(0), .has_ours = true, .key = ""};
  that_never_calls.key = net::to_hex(net::make_key());
  exchange.begin("j", kAttempt, {without_key});
  first_remarks.get_future().wait();
  exchange.end();
  exchange.begin("j", Attempt(4), {without_key, that_never_calls});
  second_has_begun.set_value();
  second_remarks.get_future().wait();
  EXPECT_TRUE(exchange.is_fetching());
  EXPECT_EQ(fetched_count, 0);
}

}  // namespace
}  // namespace muster::agent
