// Copies checkpoints in memory between agents: to a neighbour during the training, and back to the agent that
// has these ranks in a later attempt.
//
// Agents connect to one another over TLS, each pair with its own key, and list their complete slots. An agent
// that wants a slot asks for it part by part, a few at a time, and takes it if all digests are right. So a
// slow neighbour delays no one, and a step that is overwritten meanwhile is dropped. A low-priority thread
// ("muster-exchange") does all this; MemorySlots decides about slots. The functions are for one other thread.
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
    // Called on the thread: the copies for this node's ranks have arrived, or will not come.
    std::function<void()> on_fetched;
    // Called on either thread: a remark for the user, once an attempt.
    std::function<void(std::string)> on_remark;
  };
  explicit MemoryExchange(Setting setting);
  MemoryExchange(const MemoryExchange&) = delete;
  MemoryExchange& operator=(const MemoryExchange&) = delete;
  ~MemoryExchange();

  // Before the attempt's neighbours are known: opens the port for them. Their connections wait until begin().
  Expected<std::int32_t> listen(const std::string& address);
  void begin(const std::string& job, Attempt attempt, const std::vector<wire::Neighbour>& neighbours);
  // Whether copies for this node's ranks are being fetched; on_fetched follows, unless the attempt ends
  // before.
  bool is_fetching() const { return fetching_ != 0; }
  // A rank of this node has saved this step, or resumes from it.
  void saved(Rank rank, std::uint64_t step);
  // The attempt is over.
  void end();

 private:
  class Attempts;
  Status start_thread();

  Setting setting_;
  std::uint64_t begun_ = 0;                 // counts calls of begin(), to ignore late results of earlier ones
  std::atomic<std::uint64_t> at_hand_{0};   // the begin() of the current attempt; 0: none
  std::atomic<std::uint64_t> fetching_{0};  // the begin() that copies are fetched for; 0: none
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::shared_ptr<Attempts> attempts_;  // the thread's
  std::jthread thread_;
};

}  // namespace muster::agent
