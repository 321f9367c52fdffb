// The server's side of PMI-1. With this protocol the ranks of MPICH programs find each other. It consists of
// lines of text, a table of keys and values, and a barrier.
//
// Source: the wire protocol of MPICH's simple PMI client. If a rank puts a value, it is visible on the rank's
// own node at once, and on other nodes after the next barrier. The protocol allows this. At a barrier the
// nodes exchange as much as fits into a message, and repeat that until they have everything. This class makes
// decisions only. Its input is lines of ranks and answers of the launcher. Its output is lines for ranks and
// questions for the launcher. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/messages.h"

namespace muster::agent {

class PmiRanks {
 public:
  static constexpr std::size_t kMostPutBytes = std::size_t{64} << 20;  // of what all ranks of the node put

  struct Reply {
    LocalRank rank;
    std::string line;  // without its line end
  };
  struct Effects {
    std::vector<Reply> replies;
    std::vector<wire::MpiAsked> asked;
    bool all_in_barrier = false;       // all ranks of the node wait in the barrier
    std::vector<std::string> remarks;  // a line each, for the user
    std::vector<LocalRank> ended;      // send them nothing more
    std::vector<LocalRank> aborted;    // kill them: MPICH's MPI_Abort returns if nothing kills the rank
  };

  // `plan` is that of this node. `name` is the name of the ranks' world (kvsname). MPICH names its shared
  // memory after it. So the name must differ between two worlds on a host, also between two attempts.
  PmiRanks(const wire::PrepareAttempt& plan, std::string name);
  // Handles a line that a rank has sent. `line` is without the line end.
  Effects on_line(LocalRank rank, std::string_view line);
  Effects on_told(const wire::MpiTold& told);
  // Calls mpi_fault() for this rank, and returns the result, for example "called MPI_Abort with 3".
  std::string fault_of(LocalRank rank, wire::WorkerExited& exited) const;

 private:
  struct State {
    bool has_begun = false;
    bool has_finished = false;
    bool spawns = false;  // the rank is in the middle of a spawn command, which has several lines
    std::string aborted;
    int abort_code = 0;
  };
  using Words = std::map<std::string, std::string, std::less<>>;

  void obey(LocalRank rank, std::string_view command, const Words& words);
  void put(LocalRank rank, const Words& words);
  void get(LocalRank rank, const Words& words);
  void enter_barrier();
  void gather_more();
  bool take_parts(std::string_view text, bool& some_follow);
  void go_on_with_barrier(const wire::MpiTold& told);
  void leave_barrier();
  void ask(LocalRank rank, wire::MpiVerb verb, const Words& words);
  void reply(LocalRank rank, std::string line);

  std::string name_;
  std::int32_t world_size_ = 0;
  std::int32_t node_count_ = 0;
  std::vector<State> states_;  // by local rank
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t put_bytes_ = 0;  // in total, since the start
  std::string fresh_;          // KEY=VALUE lines that other nodes do not have yet
  std::int32_t in_barrier_count_ = 0;
  std::uint64_t fence_ = 0;
  std::vector<std::string> gathered_;  // by node, during a barrier
  struct Asked {
    LocalRank rank;
    wire::MpiVerb verb{};
  };
  std::map<std::uint64_t, Asked> open_;  // questions, by their numbers
  std::uint64_t last_number_ = 0;
  Effects effects_;
};

// Returns the value of PMI_process_mapping, which tells which ranks share a node. An example is
// "(vector,(0,2,4),(2,1,3))". In it, (0,2,4) stands for two nodes with four ranks each, beginning with node
// 0. (2,1,3) stands for one node with three ranks, beginning with node 2.
std::string process_mapping(const std::vector<std::int32_t>& rank_counts);

}  // namespace muster::agent
