// Each agent of an attempt has an MPI server. This relays messages between these servers. The messages are
// fences (barriers at which the nodes exchange data), data of one rank, and published names.
//
// It decides nothing about the job, and is not part of the journal, because an exchange lives only as long as
// its attempt. Refuses requests that would exceed kMostBytes. Pure; one thread.
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
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // for all stored data

  struct Told {
    NodeId node;
    wire::MpiTold told;
  };
  // Handles a question of the agent on node `from`, and returns the messages to send. The node must take part
  // in the attempt.
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
    bool once = false;  // the first reader removes it
  };
  void fence(NodeId from, const wire::MpiAsked& asked, const Crew& crew);
  void withdraw(NodeId from, const wire::MpiAsked& asked);
  void publish(NodeId from, const wire::MpiAsked& asked);
  void look_up(NodeId from, const wire::MpiAsked& asked);
  void answer(const Question& question, bool ok, std::string text = {});
  bool has_room(const wire::MpiAsked& asked) const;

  std::map<std::string, std::map<NodeId, Part>> fences_;  // not yet reached by all nodes
  std::map<std::string, Name> names_;
  std::map<std::string, std::deque<Question>> waiting_;  // questions that wait for a name
  std::size_t held_bytes_ = 0;
  std::vector<Told> told_;
};

}  // namespace muster::launcher
