// Ranks are forked processes; what they find comes back as text.
#include <algorithm>
#include <csignal>
#include <deque>
#include <gmock/gmock.h>
#include <numeric>
#include <random>

#include "tests/unit/runtime/shm_ranks.h"

namespace muster::shm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::int64_t> values_of(int rank, std::size_t count) {
  std::vector<std::int64_t> values(count);
  std::iota(values.begin(), values.end(), rank * 1000);
  return values;
}

TEST(Segment, IsFoundByItsAddressAndOnlyWhileItIsThere) {
  auto made = Segment::create(3);
  ASSERT_TRUE(made) << made.error().message();
  const std::string address = made->address();
  auto opened = Segment::open(address, 3);
  ASSERT_TRUE(opened) << opened.error().message();
  made->state(2).laid = 7;
  EXPECT_EQ(opened->state(2).laid, 7);
  EXPECT_EQ(Segment::open(address, 4).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(Segment::open("elsewhere " + address.substr(address.find(' ') + 1), 3).error().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(Segment::open("nonsense", 3).error().code(), ErrorCode::kCorrupt);
}

TEST(Segment, IsBoundedHoweverManyRanksThereAre) {
  for (const int ranks : {1, 2, 4, 16, 64, kMostRanks}) {
    auto made = Segment::create(ranks);
    ASSERT_TRUE(made) << made.error().message();
    const auto count = static_cast<std::size_t>(ranks);
    EXPECT_LE(made->bytes(), count * (std::size_t{19} << 20) + (1 << 24)) << ranks;
  }
}

TEST(Member, AddsUpWhateverTheSizeAndTheNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 5}) {
    expect_ranks(ranks, [&](Member& member) {
      for (const std::size_t count : {0UL, 1UL, 100UL, 4096UL, 4097UL, 40'000UL, 300'001UL}) {
        std::vector<std::int64_t> values = values_of(member.settings().rank, count);
        finish(member, sum_of(member, values));
        for (std::size_t i = 0; i < count; ++i)
          require_equal(values[i], static_cast<std::int64_t>(i) * ranks + 1000 * ranks * (ranks - 1) / 2,
                        "sum");
      }
    });
  }
}

// Without a call that would work on it.
void await_end(const Request& request) {
  const TimePoint end = Clock::now() + std::chrono::seconds(20);
  while (!request.ended() && Clock::now() < end) sched_yield();
  require(request.ended(), "ended though nobody waited");
}

TEST(Member, WorksOnWhatNobodyWaitsFor) {
  expect_ranks(3, [](Member& member) {
    std::vector<std::vector<std::int64_t>> all;
    std::vector<std::shared_ptr<Collective>> calls;
    for (int i = 0; i < 5; ++i) all.push_back(values_of(member.settings().rank, 50'000));
    for (auto& values : all) {
      calls.push_back(sum_of(member, values));
      calls.back()->hurried = true;
      member.start(calls.back());
    }
    await_end(*calls.back());
    for (auto& values : all) require_equal(values[1], std::int64_t{3003}, "sum");
  });
}

TEST(Member, SendsWhatFitsUnaskedAndTheRestWhenItIsTaken) {
  for (const std::size_t count : {0UL, 1UL, 1000UL, 1'000'000UL}) {
    expect_ranks(2, [&](Member& member) {
      const int rank = member.settings().rank;
      std::vector<std::int64_t> out = values_of(rank, count), in(count);
      const auto sent = message_of(true, 1 - rank, 7, out);
      member.start(sent);
      if (count <= 1000) await_end(*sent);
      finish(member, message_of(false, 1 - rank, 7, in));
      member.wait(*sent);
      require(in == values_of(1 - rank, count), "what the other one sent");
    });
  }
}

TEST(Member, FindsMessagesByTheirTagInWhateverOrder) {
  expect_ranks(3, [](Member& member) {
    const int rank = member.settings().rank;
    constexpr std::size_t kCount = 200'000;  // more than a pipe holds
    if (rank > 0) {
      std::vector<std::shared_ptr<Request>> sent;
      std::vector<std::vector<std::int64_t>> out;
      for (int tag = 0; tag < 4; ++tag) out.push_back(values_of(10 * rank + tag, tag % 2 == 0 ? kCount : 3));
      for (std::size_t tag = 0; tag < 4; ++tag) {
        sent.push_back(message_of(true, 0, tag, out[tag]));
        member.start(sent.back());
      }
      for (auto& each : sent) member.wait(*each);
      return;
    }
    for (const int tag : {3, 1, 0, 2}) {
      std::vector<std::int64_t> in(tag % 2 == 0 ? kCount : 3);
      finish(member, message_of(false, 2, static_cast<std::uint64_t>(tag), in));
      require(in == values_of(20 + tag, in.size()), fmt::format("tag {} of rank 2", tag));
      const auto any = message_of(false, -1, static_cast<std::uint64_t>(tag), in);
      finish(member, any);
      require_equal(any->source, 1, "source");
      require(in == values_of(10 + tag, in.size()), fmt::format("tag {} of rank 1", tag));
    }
  });
}

TEST(Member, RefusesAMessageOfAnotherSize) {
  const auto texts = run_ranks(2, [](Member& member) {
    std::vector<std::int64_t> values(member.settings().rank == 0 ? 2 : 3);
    finish(member, message_of(member.settings().rank == 0, 1 - member.settings().rank, 1, values));
    finish(member, barrier_of(member));
  });
  EXPECT_EQ(texts[1], "a message of 16 bytes arrived");
}

// A rank's part in one collective, and what must have come out of it.
struct Turn {
  Turn(Member& in, int number, std::size_t size, std::uint32_t from)
      : member(in),
        step(number),
        count(size),
        root(from),
        ranks(static_cast<std::size_t>(in.board().ranks)),
        values(values_of(in.settings().rank + number, size)),
        all(size * ranks) {}
  std::size_t bytes() const { return count * sizeof(std::int64_t); }
  std::byte* place(std::size_t of) { return reinterpret_cast<std::byte*>(all.data() + of * count); }
  std::vector<std::int64_t> values_of_rank(std::size_t rank) const {
    return values_of(static_cast<int>(rank) + step, count);
  }
  std::vector<std::int64_t> sum_of_all() const {
    std::vector<std::int64_t> sum(count);
    for (std::size_t each = 0; each < ranks; ++each)
      std::ranges::transform(sum, values_of_rank(each), sum.begin(), std::plus());
    return sum;
  }
  void require_all(const char* what) const {
    for (std::size_t each = 0; each < ranks; ++each)
      require(std::ranges::equal(std::span(all).subspan(each * count, count), values_of_rank(each)), what);
  }

  void sums() {
    call = sum_of(member, values);
    check = [this] { require(values == sum_of_all(), "all_reduce"); };
  }
  void reduces() {
    call = sum_of(member, values, Kind::kReduce, root);
    check = [this] {
      const auto rank = static_cast<std::size_t>(member.settings().rank);
      require(values == (rank == root ? sum_of_all() : values_of_rank(rank)), "reduce");
    };
  }
  void broadcasts() {
    call = call_of(Kind::kBroadcast, bytes(), root);
    call->steps = broadcast(member.board(), call->tag, bytes_in(values));
    check = [this] { require(values == values_of_rank(root), "broadcast"); };
  }
  void gathers() {
    call = call_of(Kind::kAllGather, bytes());
    std::vector<std::byte*> outputs;
    for (std::size_t each = 0; each < ranks; ++each) outputs.push_back(place(each));
    call->steps = all_gather(member.board(), call->tag, bytes_in(values), outputs);
    check = [this] { require_all("all_gather"); };
  }
  void scatters() {
    const auto rank = static_cast<std::size_t>(member.settings().rank);
    call = call_of(Kind::kReduceScatter, count);
    const std::vector<const std::byte*> inputs(ranks, bytes_in(values));
    call->steps = reduce_scatter(member.board(), call->tag, {combine_of(Type::kInt64, Reduction::kMax), 8},
                                 inputs, place(rank));
    check = [this, rank] {
      require(std::ranges::equal(std::span(all).subspan(rank * count, count), values_of_rank(ranks - 1)),
              "reduce_scatter");
    };
  }
  void exchanges() {
    call = call_of(Kind::kAllToAll, 0);
    const std::vector<Part> out(ranks, Part{bytes_in(values), bytes()});
    std::vector<Part> in;
    for (std::size_t each = 0; each < ranks; ++each) in.push_back({place(each), bytes()});
    call->steps = exchange(member.board(), call->tag, out, in);
    check = [this] { require_all("all_to_all"); };
  }
  // Around the ring, while the collectives run.
  void sends() {
    const int rank = member.settings().rank, size = static_cast<int>(ranks);
    const auto tag = static_cast<std::uint64_t>(step % 3);
    all.resize(count);
    receive = message_of(false, (rank + size - 1) % size, tag, all);
    send = message_of(true, (rank + 1) % size, tag, values);
    check = [this, before = (rank + size - 1) % size] {
      require(all == values_of(before + step, count), "message");
    };
  }

  void start(unsigned kind, bool hurried) {
    using Start = void (Turn::*)();
    constexpr Start kStarts[] = {&Turn::sums,     &Turn::reduces,   &Turn::broadcasts, &Turn::gathers,
                                 &Turn::scatters, &Turn::exchanges, &Turn::sends};
    (this->*kStarts[kind % std::size(kStarts)])();
    if (call != nullptr) call->hurried = hurried;
    for (const std::shared_ptr<Request>& each :
         {std::shared_ptr<Request>(call), std::shared_ptr<Request>(receive), std::shared_ptr<Request>(send)})
      if (each != nullptr) member.start(each);
  }
  void finish() {
    for (const std::shared_ptr<Request>& each :
         {std::shared_ptr<Request>(call), std::shared_ptr<Request>(send),
          std::shared_ptr<Request>(receive)}) {
      if (each == nullptr) continue;
      member.wait(*each);
      require_equal(each->error(), std::string(), "error");
    }
    check();
  }

  Member& member;
  int step;
  std::size_t count;
  std::uint32_t root;
  std::size_t ranks;
  std::vector<std::int64_t> values, all;
  std::shared_ptr<Collective> call;
  std::shared_ptr<Message> receive, send;
  std::function<void()> check;
};

// Most counts are small. Some of the others end where a piece of a collective ends, or one element before or
// after it.
std::size_t count_at_random(std::mt19937& random) {
  if (random() % 4 != 0) return random() % 300;
  if (random() % 2 == 0) return random() % 150'000;
  const std::size_t piece = (random() % 2 == 0 ? kSumBytes : kBufferBytes) / sizeof(std::int64_t);
  return piece * (1 + random() % 4) - 1 + random() % 3;
}

// Collectives and messages at random, the same on all ranks, some of them waited for later.
void take_part(Member& member, unsigned seed, int steps) {
  std::mt19937 random(seed);
  const auto ranks = static_cast<unsigned>(member.board().ranks);
  std::deque<Turn> later;
  for (int step = 0; step < steps; ++step) {
    const std::size_t count = count_at_random(random);
    const unsigned root = random() % ranks, kind = random();
    const bool hurried = random() % 2 == 0, all_now = random() % 3 == 0;
    later.emplace_back(member, step, count, root).start(kind, hurried);
    while (all_now && !later.empty()) {
      // The last one first: what is given earlier is done earlier all the same.
      later.back().finish();
      later.pop_back();
    }
  }
  for (Turn& each : later) each.finish();
}

TEST(Member, GetsThroughMixedCollectivesAndMessages) {
  const char* const given = std::getenv("MUSTER_SHM_SEEDS");
  const unsigned seeds = given == nullptr ? 6 : static_cast<unsigned>(std::atoi(given));
  for (const int ranks : {2, 3, 4, 5})
    expect_ranks(ranks, [&](Member& member) {
      for (unsigned seed = 0; seed < seeds; ++seed) take_part(member, seed, 40);
    });
}

TEST(Member, NamesARankThatWasKilledInAnyCollective) {
  const std::vector<std::function<void(Member&)>> calls{
      [](Member& member) {
        std::vector<std::int64_t> values(100'000);
        while (true) finish(member, sum_of(member, values));
      },
      [](Member& member) {
        std::vector<std::int64_t> values(100'000);
        while (true) finish(member, sum_of(member, values, Kind::kReduce, 2));
      },
      [](Member& member) {
        while (true) finish(member, barrier_of(member));
      },
      [](Member& member) {
        std::vector<std::int64_t> values(100'000);
        while (true) {
          auto call = call_of(Kind::kBroadcast, values.size() * 8, 1);
          call->steps = broadcast(member.board(), call->tag, bytes_in(values));
          finish(member, call);
        }
      },
      [](Member& member) {
        std::vector<std::int64_t> values(100'000), all(300'000);
        while (true) {
          auto call = call_of(Kind::kAllToAll, 0);
          std::vector<Part> out(3, Part{bytes_in(values), 800'000}), in;
          for (std::size_t each = 0; each < 3; ++each)
            in.push_back({bytes_in(all) + each * 800'000, 800'000});
          call->steps = exchange(member.board(), call->tag, out, in);
          finish(member, call);
        }
      },
      [](Member& member) {
        std::vector<std::int64_t> values(3);
        if (member.settings().rank != 1) finish(member, message_of(false, 1, 0, values));
        while (true) pause();
      },
  };
  for (const auto& call : calls) {
    const TimePoint begin = Clock::now();
    const auto texts = run_ranks(3, [&](Member& member) {
      std::jthread end;
      if (member.settings().rank == 1)
        end = std::jthread([&member] {
          // In the midst of a call, of those that lay pieces down.
          const auto& laid = member.board().segment.state(1).laid;
          const TimePoint latest = Clock::now() + std::chrono::milliseconds(500);
          while (laid < 11 && Clock::now() < latest) std::this_thread::yield();
          raise(SIGKILL);
        });
      call(member);
    });
    EXPECT_THAT(texts[0], EndsWith("rank 11 has ended"));
    EXPECT_EQ(texts[1], "killed by 9");
    EXPECT_THAT(texts[2], EndsWith("rank 11 has ended"));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));  // half of what ends a call in any case
  }
}

TEST(Member, NamesWhoHasNotComeInTime) {
  const auto body = [](Member& member) {
    const auto waits = [&](int rank) {
      return member.board().segment.state(rank).presence == Presence::kHere;
    };
    if (member.settings().rank % 2 == 0) finish(member, barrier_of(member));
    // The others live, and come to nothing.
    while (waits(0) || waits(2)) sched_yield();
  };
  // On a busy machine a rank of two processors' four may be late by a second.
  const auto texts = run_ranks(4, body, {.limit = std::chrono::seconds(3)});
  EXPECT_THAT(texts[0], HasSubstr("waiting for ranks 11, 13"));
  EXPECT_THAT(texts[2], HasSubstr("waiting for ranks 11, 13"));
}

TEST(Member, NamesWhoDoesNotJoin) {
  const auto texts = run_ranks(3, [](Member&) {}, {.limit = std::chrono::milliseconds(1000), .absent = 1});
  EXPECT_EQ(texts[0], "rank 11 did not join within 1000 ms");
  EXPECT_EQ(texts[2], "rank 11 did not join within 1000 ms");
}

TEST(Member, EndsWithWhatTheFirstFoundOut) {
  const auto texts = run_ranks(3, [](Member& member) {
    std::vector<std::int64_t> values(1);
    if (member.settings().rank == 1) return;  // leaves in good order, without the second
    finish(member, sum_of(member, values));
  });
  EXPECT_THAT(texts[0], EndsWith("rank 11 has left the group"));
  EXPECT_THAT(texts[2], EndsWith("rank 11 has left the group"));
}

TEST(Member, DoesNotMissWhoHasDoneItsPartAndLeft) {
  expect_ranks(3, [](Member& member) {
    std::vector<std::int64_t> values = values_of(member.settings().rank, 3);
    if (member.settings().rank == 0) finish(member, message_of(true, 2, 0, values));
    auto call = call_of(Kind::kBroadcast, 24, 0);
    call->steps = broadcast(member.board(), call->tag, bytes_in(values));
    finish(member, call);
    if (member.settings().rank != 2) return;
    while (member.board().segment.state(0).presence != Presence::kLeft) sched_yield();
    finish(member, message_of(false, 0, 0, values));
    require(values == values_of(0, 3), "message");
  });
}

TEST(Member, ReceivesFromARankThatHasLeftBeforeThisOneHadJoined) {
  auto made = Segment::create(2);
  ASSERT_TRUE(made) << made.error().message();
  const auto join = [&](int rank, const std::function<std::string()>& meanwhile) {
    auto segment = Segment::open(made->address(), 2);
    EXPECT_TRUE(segment) << segment.error().message();
    return Member::join(std::move(*segment),
                        {.rank = rank, .names = {10, 11}, .limit = std::chrono::seconds(20)}, meanwhile);
  };
  // Rank 0 has seen that rank 1 is missing; before it looks again, rank 1 joins, sends and leaves.
  std::vector<std::int64_t> sent = values_of(1, 3), received(3);
  const auto receiver = join(0, [&] {
    const auto sender = join(1, [] { return std::string(); });
    if (sender) finish(**sender, message_of(true, 0, 0, sent));
    return std::string();
  });
  ASSERT_TRUE(receiver) << receiver.error().message();
  EXPECT_EQ(made->state(1).presence, Presence::kLeft);
  finish(**receiver, message_of(false, 1, 0, received));
  EXPECT_EQ(received, sent);
}

TEST(Member, TellsRanksInDifferentCollectives) {
  const auto texts = run_ranks(2, [](Member& member) {
    std::vector<std::int64_t> values(member.settings().rank == 0 ? 4 : 5);
    finish(member, sum_of(member, values));
  });
  EXPECT_THAT(texts, Each(HasSubstr("ranks are in different collectives: rank 1")));
  EXPECT_THAT(texts[0] + texts[1], HasSubstr("all_reduce (sum) of 5 Long"));
}

TEST(Member, IsGivenUpFromAnotherThread) {
  const auto texts = run_ranks(2, [](Member& member) {
    if (member.settings().rank == 0) {
      const std::jthread other([&] { member.give_up("somebody wants it so"); });
      finish(member, barrier_of(member));
    }
    std::vector<std::int64_t> values(1);
    finish(member, message_of(false, 0, 0, values));
  });
  EXPECT_EQ(texts[0], "barrier: somebody wants it so");
  // It may learn it as it joins.
  EXPECT_THAT(texts[1], EndsWith("somebody wants it so"));
}

}  // namespace
}  // namespace muster::shm
