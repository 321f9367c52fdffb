// Copies what ranks hold in memory from one agent to another: to a neighbour while they train, and back to
// the agent of whoever has these ranks next.
//
// Agents call one another over TLS, each pair with a key of its own, and tell what is complete here; who
// wants a slot asks for it part by part, a few at a time, and takes it when all digests are right. So a slow
// neighbour delays nobody, and a step that is overwritten meanwhile is dropped. A thread that yields to
// training does it all ("muster-exchange"); what it needs of the slots, MemorySlots decides. The functions
// are for one thread, another one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/io/workers/memory_slots.h"
#include "common/net/asio.h"
#include "common/wire/messages.h"

namespace muster::agent {

class MemoryExchange {
 public:
  struct Setting {
    MemorySlots& slots;  // outlives it
    AgentId own;
    // By the thread: what others had for this node's ranks is here, or will not come.
    std::function<void()> on_fetched;
    // By either thread: a line for the user, once an attempt.
    std::function<void(std::string)> on_remark;
  };
  explicit MemoryExchange(Setting setting);
  MemoryExchange(const MemoryExchange&) = delete;
  MemoryExchange& operator=(const MemoryExchange&) = delete;
  ~MemoryExchange();

  // Before the attempt's neighbours are known: the port at which they may call. They wait until begin().
  Expected<std::int32_t> listen(const std::string& address);
  void begin(const std::string& job, Attempt attempt, const std::vector<wire::Neighbour>& neighbours);
  // Something is got for this node's ranks; on_fetched follows, unless the attempt ends before.
  bool is_fetching() const { return fetching_ != 0; }
  // A rank of this node has saved this step, or goes on from there.
  void saved(Rank rank, std::uint64_t step);
  // The attempt is over.
  void end();

 private:
  class Attempts;
  Status start_thread();

  Setting setting_;
  std::uint64_t begun_ = 0;                 // counts begins: what ends late belongs to another
  std::atomic<std::uint64_t> at_hand_{0};   // the begin whose attempt is not over; 0: none
  std::atomic<std::uint64_t> fetching_{0};  // the begin for which something is got; 0: nothing is
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::shared_ptr<Attempts> attempts_;  // the thread's
  std::jthread thread_;
};

}  // namespace muster::agent
