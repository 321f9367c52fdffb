// How the ranks agree about checkpoints: over the store, so that training's collectives are not touched.
//
// A Meeting is a conversation that waits for all ranks; a StopAgreement waits for nobody. One thread at a
// time may use either.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "common/base/error.h"

namespace muster {

// A meeting has rounds. In each, every rank gives a word to rank 0, and rank 0 announces one word to all.
//
// Invariants:
// - The name of the meeting is the same on all ranks and used once, so that no rank takes a word that was
//   meant for another meeting.
// - It has its own connection to the store, so that a wait here blocks nobody else.
// - A rank deletes its own keys once rank 0 has read them; rank 0 deletes an announcement once all ranks have
//   answered in a later round.
class Meeting {
 public:
  // All ranks construct their meetings in the same order.
  Meeting(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Begins the meeting of this name, and leaves the previous one, in whichever round that was.
  void open(const std::string& name);

  void give(const std::string& word);  // to rank 0
  // For rank 0: waits for the words of all ranks, its own included. kTimedOut names the ranks that did not
  // answer; kUnavailable: the store is gone.
  Expected<std::vector<std::string>> collect(std::chrono::milliseconds timeout);
  // Lets some ranks talk among themselves, apart from the words to rank 0. Gives `word`, and returns what
  // each of `ranks` gave, in this order. Each `name` is used once in a round. Errors as in collect().
  Expected<std::vector<std::string>> exchange(const std::string& name, const std::vector<int>& ranks,
                                              const std::string& word, std::chrono::milliseconds timeout);
  // For rank 0: tells all others the word, and ends the round. Throws torch's exception if the store is gone,
  // as give() does.
  void announce(const std::string& word);
  // For the other ranks: waits for what rank 0 announces, and ends the round. Returns the codes of collect().
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
  std::vector<std::string> exchanged_;  // this rank's keys that other ranks may read until the round ends
};

// Makes all ranks stop after the same step, once they have been given notice.
//
// Each rank posts the step that it has completed; when all have posted, the stop is two steps after the
// highest. Each step of data-parallel training waits for all ranks, so a rank is at most one step ahead of
// any other, and learns of the stop before it gets there. No rank waits: each asks once a step.
class StopAgreement {
 public:
  // All ranks construct theirs in the same order.
  StopAgreement(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  // Call it after each step from the notice on. Returns the step after which to stop; none until all ranks
  // have posted. Throws torch's exception if the store is gone.
  std::optional<std::int64_t> ask(std::int64_t steps_done);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int world_size_;
  bool posted_ = false;
  std::optional<std::int64_t> stop_;
};

}  // namespace muster
