// Copies checkpoints in memory between agents. During the training, neighbours get copies. In a later
// attempt, a rank may belong to another agent than before. That agent fetches the rank's copy from the
// neighbour that has it.
//
// Agents connect to one another over TLS. Each pair of agents has its own key. MemoryConversation is one such
// connection, and MemorySlots decides which slots to copy. A low-priority thread ("muster-exchange") does all
// this. Call all functions on one other thread.
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
    MemorySlots& slots;  // must outlive this object
    AgentId own;
    // Called when the copies for this node's ranks have arrived, or when it is clear that they will not come.
    // The call comes on the thread "muster-exchange".
    std::function<void()> on_fetched;
    // Called with a remark for the user. The call can come on the thread "muster-exchange" or on the thread
    // that uses this object.
    std::function<void(std::string)> on_remark;
  };
  explicit MemoryExchange(Setting setting);
  MemoryExchange(const MemoryExchange&) = delete;
  MemoryExchange& operator=(const MemoryExchange&) = delete;
  ~MemoryExchange();

  // Opens the port for the neighbours. Call this before the neighbours are known. If one connects early, its
  // connection waits until begin() is called.
  Expected<std::int32_t> listen(const std::string& address);
  void begin(const std::string& job, Attempt attempt, const std::vector<wire::Neighbour>& neighbours);
  // Returns whether this agent is fetching copies for this node's ranks. If it is, on_fetched is called
  // later, unless the attempt ends first.
  bool is_fetching() const { return fetching_ != 0; }
  // Call when a rank of this node has saved this step, or resumes from it.
  void saved(Rank rank, std::uint64_t step);
  // Call when the attempt is over.
  void end();

 private:
  class Attempts;
  Status start_thread();

  Setting setting_;
  std::uint64_t begun_ = 0;                 // counts calls of begin(), to recognize late results
  std::atomic<std::uint64_t> at_hand_{0};   // the number of the begin() of the current attempt; 0: none
  std::atomic<std::uint64_t> fetching_{0};  // the number of the begin() that copies are fetched for; 0: none
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::shared_ptr<Attempts> attempts_;  // used only on the thread
  std::jthread thread_;
};

}  // namespace muster::agent
