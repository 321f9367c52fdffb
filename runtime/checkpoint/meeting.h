// Lets the ranks agree about checkpoints. They send their messages through the store, not by the collectives
// that training uses.
//
// In a Meeting, the ranks wait for each other. A StopAgreement never waits. Only one thread at a time can use
// a Meeting or a StopAgreement.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "common/base/error.h"

namespace muster {

// A meeting has rounds. In each round, every rank gives a word, which can be any text, to rank 0. Then rank 0
// announces one word to all ranks.
//
// Invariants:
// - The name of a meeting is the same on all ranks. It is used only once, so that no rank reads a word of
//   another meeting.
// - A Meeting has its own connection to the store. So if it waits, other users of the store need not wait.
// - A rank deletes the keys that it has written when rank 0 has read them. Rank 0 deletes an announcement
//   when all ranks have answered in a later round.
class Meeting {
 public:
  // The first Meeting of a rank meets the first Meeting of every other rank, the second meets the second, and
  // so on. So all ranks must construct their Meetings in the same order.
  Meeting(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Leaves the previous meeting, even if it is in the middle of a round, and begins the meeting with this
  // name.
  void open(const std::string& name);

  void give(const std::string& word);  // to rank 0
  // Rank 0 calls it. Waits for the words of all ranks, including its own word, and returns them. If some
  // ranks do not answer, returns kTimedOut, which names them. If the store no longer exists, returns
  // kUnavailable.
  Expected<std::vector<std::string>> collect(std::chrono::milliseconds timeout);
  // The ranks in `ranks` call exchange() to share their words among themselves. These words do not go to rank
  // 0. Each rank gives its `word`. exchange() returns the words of all these ranks, in the order of `ranks`.
  // Each `name` can be used only once in a round. The errors are those of collect().
  Expected<std::vector<std::string>> exchange(const std::string& name, const std::vector<int>& ranks,
                                              const std::string& word, std::chrono::milliseconds timeout);
  // Rank 0 calls it. Announces the word to all other ranks, and ends the round. If the store no longer
  // exists, throws torch's exception, as give() does.
  void announce(const std::string& word);
  // Every rank except rank 0 calls it. Waits for the word that rank 0 announces, and ends the round. Returns
  // the same errors as collect().
  Expected<std::string> listen(std::chrono::milliseconds timeout);

 private:
  std::string word_key(int rank) const;
  std::string announcement_key() const;
  Expected<std::vector<std::string>> get_all(const std::vector<std::string>& keys,
                                             const std::vector<int>& ranks,
                                             std::chrono::milliseconds timeout);
  void forget_exchanged();
  void forget_answered();
  Expected<std::string> get(const std::string& key, std::chrono::milliseconds timeout);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int world_size_;
  std::string name_ = "first";
  int round_ = 0;
  bool has_given_ = false;              // in this round
  bool all_answered_ = false;           // in this round
  std::vector<std::string> announced_;  // keys that another rank may still have to read
  std::vector<std::string> exchanged_;  // this rank's keys that others may still read in this round
};

// Makes all ranks stop after the same step, when each of them has been told that the job will be preempted.
//
// Each rank writes to the store which step it has completed. When all ranks have written their steps, all of
// them know the step after which they stop: it is the highest of these steps plus 2. In data-parallel
// training, each step waits for all ranks. So no rank is more than one step ahead of another, and each rank
// knows the last step before it has completed that step. No rank waits in this class, because each rank only
// asks once in each step.
class StopAgreement {
 public:
  // The first StopAgreement of a rank agrees with the first one of every other rank, and so on. So all ranks
  // must construct their StopAgreements in the same order.
  StopAgreement(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  // When this rank has been told of a preemption, it calls ask() after each step. Returns the step after
  // which all ranks stop. Returns nothing as long as some ranks have not called it. Throws torch's exception
  // if the store no longer exists.
  std::optional<std::int64_t> ask(std::int64_t steps_done);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int world_size_;
  bool posted_ = false;
  std::optional<std::int64_t> stop_;
};

}  // namespace muster
