// What the MPI servers of one attempt's agents settle by way of the launcher: fences, one rank's data, and
// published names.
//
// Decides nothing about the job, and is not kept in its journal: an attempt's exchange ends with it. What is
// held at a time has a limit, beyond which a question is answered with no. Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "launcher/core/job/crew.h"

namespace muster::launcher {

class MpiExchange {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of all data that is held

  struct Told {
    NodeId node;
    wire::MpiTold told;
  };
  // What the question of this node, one of the attempt's, leads to.
  std::vector<Told> on(NodeId from, const wire::MpiAsked& asked, const Crew& crew);

 private:
  struct Question {
    NodeId node;
    std::uint64_t number = 0;
  };
  struct Part {  // of a fence
    std::uint64_t number = 0;
    std::string text;
  };
  struct Name {
    std::string text;
    bool once = false;  // who reads it first has it
  };
  void fence(NodeId from, const wire::MpiAsked& asked, const Crew& crew);
  void withdraw(NodeId from, const wire::MpiAsked& asked);
  void publish(NodeId from, const wire::MpiAsked& asked);
  void look_up(NodeId from, const wire::MpiAsked& asked);
  void answer(const Question& question, bool ok, std::string text = {});
  bool has_room(const wire::MpiAsked& asked) const;

  std::map<std::string, std::map<NodeId, Part>> fences_;  // that not all nodes have reached
  std::map<std::string, Name> names_;
  std::map<std::string, std::deque<Question>> waiting_;  // for names
  std::size_t held_bytes_ = 0;
  std::vector<Told> told_;
};

}  // namespace muster::launcher
