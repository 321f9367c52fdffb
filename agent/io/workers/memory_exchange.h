// Copies checkpoints in memory between agents. During the training a neighbour gets copies; in a later
// attempt, the agent that then has these ranks fetches them from the neighbour.
//
// Agents connect to one another over TLS, each pair with its own key. MemoryConversation is one such
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
    // Called on the thread "muster-exchange" when the copies for this node's ranks have arrived, or will not
    // come.
    std::function<void()> on_fetched;
    // Called on either thread with a remark for the user.
    std::function<void(std::string)> on_remark;
  };
  explicit MemoryExchange(Setting setting);
  MemoryExchange(const MemoryExchange&) = delete;
  MemoryExchange& operator=(const MemoryExchange&) = delete;
  ~MemoryExchange();

  // Opens the port for the neighbours. Call before they are known; their connections wait until begin().
  Expected<std::int32_t> listen(const std::string& address);
  void begin(const std::string& job, Attempt attempt, const std::vector<wire::Neighbour>& neighbours);
  // Returns whether copies for this node's ranks are being fetched. If so, on_fetched follows, unless the
  // attempt ends first.
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
