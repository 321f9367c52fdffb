// Forked ranks of a group that shares memory, without torch.
#pragma once

#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "runtime/comm/shm/member.h"
#include "tests/require.h"

namespace muster::shm {

struct RankOptions {
  std::chrono::milliseconds limit{20'000};
  int first_name = 10;  // ranks are called 10, 11 ... so that no name is a place
  int absent = -1;      // never comes
};

inline std::vector<int> names_of(int ranks, const RankOptions& options) {
  std::vector<int> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back(options.first_name + rank);
  return names;
}

// The body of a forked rank: what it throws is its text.
inline std::string text_of_rank(const Segment& made, int rank, const RankOptions& options,
                                const std::function<void(Member&)>& body) {
  try {
    auto segment = Segment::open(made.address(), made.ranks());
    if (!segment) return segment.error().message();
    auto member = Member::join(
        std::move(*segment), {.rank = rank, .names = names_of(made.ranks(), options), .limit = options.limit},
        [] { return std::string(); });
    if (!member) return member.error().message();
    body(**member);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The message that each rank threw, or empty; "killed by N" if a signal killed it.
inline std::vector<std::string> run_ranks(int ranks, const std::function<void(Member&)>& body,
                                          const RankOptions& options = {}) {
  constexpr std::size_t kTextBytes = 4096;
  auto segment = Segment::create(ranks);
  EXPECT_TRUE(segment) << segment.error().message();
  const std::size_t size = kTextBytes * static_cast<std::size_t>(ranks);
  auto* const texts =
      static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == options.absent) {
      children.push_back(-1);
      continue;
    }
    children.push_back(fork());
    if (children.back() != 0) continue;
    std::strncpy(texts + kTextBytes * static_cast<std::size_t>(rank),
                 text_of_rank(*segment, rank, options, body).c_str(), kTextBytes - 1);
    _exit(0);
  }
  std::vector<std::string> found;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    if (children[static_cast<std::size_t>(rank)] > 0)
      waitpid(children[static_cast<std::size_t>(rank)], &status, 0);
    found.push_back(WIFSIGNALED(status) ? fmt::format("killed by {}", WTERMSIG(status))
                                        : std::string(texts + kTextBytes * static_cast<std::size_t>(rank)));
  }
  munmap(texts, size);
  return found;
}

// The same, where nobody may throw.
inline void expect_ranks(int ranks, const std::function<void(Member&)>& body,
                         const RankOptions& options = {}) {
  const std::vector<std::string> texts = run_ranks(ranks, body, options);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank], "") << "of rank " << rank;
}

inline void finish(Member& member, const std::shared_ptr<Request>& request) {
  member.start(request);
  member.wait(*request);
  if (!request->error().empty()) throw std::runtime_error(request->error());
}

inline std::shared_ptr<Collective> call_of(Kind kind, std::size_t count, std::uint32_t root = 0) {
  auto call = std::make_shared<Collective>();
  call->tag.kind = static_cast<std::uint8_t>(kind);
  call->tag.count = count;
  call->tag.root = root;
  call->bytes = count;
  return call;
}

template <class T>
std::byte* bytes_in(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

inline std::shared_ptr<Collective> sum_of(Member& member, std::vector<std::int64_t>& values,
                                          Kind kind = Kind::kAllReduce, std::uint32_t root = 0) {
  auto call = call_of(kind, values.size(), root);
  call->tag.type = static_cast<std::uint8_t>(Type::kInt64);
  call->bytes = values.size() * sizeof values[0];
  call->steps = all_reduce(member.board(), call->tag,
                           {combine_of(Type::kInt64, Reduction::kSum), sizeof values[0]}, bytes_in(values));
  return call;
}

inline std::shared_ptr<Collective> barrier_of(Member& member) {
  auto call = call_of(Kind::kBarrier, 0);
  call->steps = barrier(member.board(), call->tag);
  return call;
}

template <class T>
std::shared_ptr<Message> message_of(bool sends, int peer, std::uint64_t tag, std::vector<T>& values) {
  auto message = std::make_shared<Message>();
  message->sends = sends;
  message->peer = peer;
  message->tag = tag;
  message->data = bytes_in(values);
  message->bytes = values.size() * sizeof(T);
  message->hurried = sends;
  return message;
}

}  // namespace muster::shm
