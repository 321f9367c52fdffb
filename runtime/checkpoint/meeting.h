// How the ranks agree about checkpoints. They talk through the store, not in training's collectives.
//
// In a Meeting, ranks wait for each other; a StopAgreement never waits. Use each on one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "common/base/error.h"

namespace muster {

// A meeting has rounds. In each round, every rank gives a word (any text) to rank 0, and rank 0 announces one
// word to all.
//
// Invariants:
// - The name of a meeting is the same on all ranks and is used only once, so that no rank reads a word of
//   another meeting.
// - A Meeting has its own connection to the store, so that its waits do not block other users of the store.
// - A rank deletes its own keys once rank 0 has read them; rank 0 deletes an announcement once all ranks have
//   answered in a later round.
class Meeting {
 public:
  // All ranks must construct their Meetings in the same order.
  Meeting(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Leaves the previous meeting, in whichever round it is, and begins the one with this name.
  void open(const std::string& name);

  void give(const std::string& word);  // to rank 0
  // For rank 0: waits for the words of all ranks, its own included. kTimedOut names the ranks that did not
  // answer; kUnavailable: the store is gone.
  Expected<std::vector<std::string>> collect(std::chrono::milliseconds timeout);
  // Each of `ranks` calls it to exchange words among them, apart from the words to rank 0. Gives `word`, and
  // returns the words of all of `ranks`, in this order. Use a `name` once in a round. Errors as in collect().
  Expected<std::vector<std::string>> exchange(const std::string& name, const std::vector<int>& ranks,
                                              const std::string& word, std::chrono::milliseconds timeout);
  // For rank 0: tells all others the word, and ends the round. Throws torch's exception if the store is gone,
  // as give() does.
  void announce(const std::string& word);
  // For the other ranks: waits for what rank 0 announces, and ends the round. Errors as in collect().
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

// Makes all ranks stop after the same step, once each has been told that the job will be preempted.
//
// Each rank writes the step that it has completed to the store. When all have done so, they stop two steps
// after the highest of these steps. Each step of data-parallel training waits for all ranks, so a rank is at
// most one step ahead of any other. Each rank therefore learns of the stop before it gets there. No rank
// waits: each asks once a step.
class StopAgreement {
 public:
  // All ranks must construct their StopAgreements in the same order.
  StopAgreement(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  // Call it after each step, once this rank has been told of the preemption. Returns the step after which to
  // stop; none until all ranks have called it. Throws torch's exception if the store is gone.
  std::optional<std::int64_t> ask(std::int64_t steps_done);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int world_size_;
  bool posted_ = false;
  std::optional<std::int64_t> stop_;
};

}  // namespace muster
