// Which hosts are asked what ended agents have left there, and when: each node's until its host has said that
// nothing is left.
//
// One look at all of them is under way at a time. It is over when each host has answered or cannot: a host
// that does not answer has no leftovers that anybody knows of, keeps nobody waiting, and is asked again by
// itself. Pure: the caller asks the hosts, and wakes it at next_deadline().
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

  struct Ask {  // the node's host, what is left there; answered by answered()
    NodeId node;
    bool kill = false;
    bool again = false;        // by itself: no look waits for it
    std::uint64_t number = 0;  // of the node's newest end
  };
  struct Seen {  // answers look()
    std::vector<Leftover> left;
    bool killed = false;
  };
  using Action = std::variant<Ask, Seen>;
  using Actions = std::vector<Action>;

  // The node's agent has ended, or is being killed.
  void expect(NodeId node) { nodes_[node].ended = ++newest_; }
  // Somebody wants to know what is left; with `kill`, it is killed as well.
  Actions look(bool kill, TimePoint now);
  // `left`: nothing if the host did not answer.
  Actions answered(const Ask& asked, std::optional<std::vector<Leftover>> left, TimePoint now);
  Actions on_time(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // Its host did not answer, and is asked again by itself until nothing is left.
  bool is_silent(NodeId node) const;

 private:
  struct Node {
    std::uint64_t ended = 0;              // when its newest agent did, in the order of ends
    bool silent = false;                  // its host has not answered once, and is asked again by itself
    std::optional<TimePoint> again_at{};  // then; nothing while it is being asked
  };
  struct Look {
    bool begun = false;
    bool kill = false;
    std::uint64_t asked = 0;  // those whose agents had ended by then
    std::set<NodeId> waits_for{};
    std::vector<Leftover> left{};
  };

  void begin(TimePoint now, Actions& actions);
  void ask_new_ones(Actions& actions);
  void finish_if_answered(TimePoint now, Actions& actions);

  std::map<NodeId, Node> nodes_;  // whose hosts have not said that nothing is left
  std::uint64_t newest_ = 0;
  std::optional<Look> look_;
  bool kill_next_ = false;  // somebody wants that since the last look began
  TimePoint next_look_{};
};

}  // namespace muster::launcher
