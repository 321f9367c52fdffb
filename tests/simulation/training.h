// The ranks of one attempt: all make each step together, rank 0 commits now and then, and a rank that loses a
// peer fails or waits for ever.
//
// Drives the ranks' processes, and sends their reports to the agents. One thread; held by World.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/simulation/world.h"

namespace muster::simulation {

class Training : public std::enable_shared_from_this<Training> {
 public:
  Training(World& world, Attempt attempt, int world_size);

  // A rank's process has been started.
  void join(NodeId node, Rank rank, std::int32_t pid, std::optional<std::uint64_t> resume_step);
  // One of the ranks has ended.
  void ended(Rank rank, int exit_code, int signal);
  bool has_seen(Rank rank) const { return seats_.contains(rank) || ended_.contains(rank); }

  // Faults. The culprit hangs in a step; the others may have finished that step or not.
  void stall(Rank culprit);
  void peers_fail(bool with_words);
  void notice();  // the ranks save and leave

  TimePoint began() const { return began_; }
  int world_size() const { return world_size_; }
  int succeeded_count() const { return static_cast<int>(succeeded_.size()); }
  int steps_made() const { return steps_made_; }
  bool complete() const { return static_cast<int>(seats_.size()) == world_size_ && !finishing_; }
  bool fenced() const { return fenced_; }
  NodeId node_of_rank_0() const { return node_of_rank_0_; }
  bool saved_on_notice() const { return saved_; }
  std::string last_line_of(Rank rank) const;

 private:
  struct Seat {
    NodeId node;
    std::int32_t pid = 0;
  };
  SimulatedProcess* process_of(Rank rank);
  bool gets_on();
  void tick();
  void tick_after(Duration delay);
  void report_step();
  void report(Rank rank, wire::ReportKind kind, std::uint64_t step, const std::string& text);
  // False if rank 0 is fenced.
  bool commit();
  void finish();
  void save_and_leave_after(Duration delay);
  void save_and_leave();

  World& world_;
  TimePoint began_;
  Attempt attempt_;
  int world_size_;
  std::map<Rank, Seat> seats_;
  std::set<Rank> ended_;
  std::set<Rank> succeeded_;
  std::map<Rank, std::string> last_lines_;
  std::uint64_t step_ = 0;
  int steps_made_ = 0;
  bool ticking_ = false;
  bool finishing_ = false;
  bool fenced_ = false;
  bool noticed_ = false;
  bool saved_ = false;
  NodeId node_of_rank_0_;
};

}  // namespace muster::simulation
