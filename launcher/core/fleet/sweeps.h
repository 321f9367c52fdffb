// Decides which hosts to ask for the leftovers of ended agents, and when. A node's host is asked until it
// answers that nothing is left.
//
// Only one look at all hosts runs at a time. It ends when each host has answered or has failed to answer. If
// a host fails to answer, it counts as empty for this look. It is also asked again, without the others. Pure:
// the caller asks the hosts, and calls on_time() at next_deadline().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/process.h"

namespace muster::launcher {

class Sweeps {
 public:
  static constexpr Duration kPeriod = std::chrono::milliseconds(500);  // a look costs a shell on each host
  static constexpr Duration kPause = std::chrono::seconds(5);          // for a host that did not answer

  struct Ask {  // ask the node's host for leftovers; the caller answers with answered()
    NodeId node;
    bool kill = false;
    bool again = false;        // the host is asked on its own, outside of a look
    std::uint64_t number = 0;  // Node::ended when the host is asked
  };
  struct Seen {  // answers look()
    std::vector<Leftover> left;
    bool killed = false;
  };
  using Action = std::variant<Ask, Seen>;
  using Actions = std::vector<Action>;

  // Call when the agent of the node has ended or is being killed. Then there may be leftovers.
  void expect(NodeId node) { nodes_[node].ended = ++newest_; }
  // Starts a search for leftovers. A leftover is a process that is still there although its agent has ended.
  // If `kill` is true, the search also kills the leftovers.
  Actions look(bool kill, TimePoint now);
  // Call with the answer of the host to `asked`. `left` is nullopt if the host did not answer.
  Actions answered(const Ask& asked, std::optional<std::vector<Leftover>> left, TimePoint now);
  Actions on_time(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // Returns whether the host of the node did not answer. Such a host is asked without the others, until
  // nothing is left.
  bool is_silent(NodeId node) const;

 private:
  struct Node {
    std::uint64_t ended = 0;              // number of its newest agent's end, in the order of ends
    bool silent = false;                  // its host failed to answer once, and is asked on its own
    std::optional<TimePoint> again_at{};  // when to ask it next on its own, unless it is being asked
  };
  struct Look {
    bool begun = false;
    bool kill = false;
    std::uint64_t asked = 0;  // ends up to this number have been asked about
    std::set<NodeId> waits_for{};
    std::vector<Leftover> left{};
  };

  void begin(TimePoint now, Actions& actions);
  void ask_new_ones(Actions& actions);
  void finish_if_answered(TimePoint now, Actions& actions);

  std::map<NodeId, Node> nodes_;  // hosts that have not answered that nothing is left
  std::uint64_t newest_ = 0;
  std::optional<Look> look_;
  bool kill_next_ = false;  // requested since the last look began
  TimePoint next_look_{};
};

}  // namespace muster::launcher
