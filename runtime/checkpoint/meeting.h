// How the ranks agree about a checkpoint: over the store, so that training's collectives are not touched.
//
// A meeting has a name that is the same on all ranks and used once, so that nobody takes a word that was
// meant for another. It has rounds: every rank gives a word to rank 0, and rank 0 gives one word to all. It
// has its own connection to the store, so that a wait here blocks nobody else. For one thread at a time.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "common/base/error.h"

namespace muster {

class Meeting {
 public:
  // All ranks construct their meetings in the same order.
  Meeting(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Leaves the meeting before, wherever that was.
  void open(const std::string& name);

  void give(const std::string& word);  // to rank 0
  // Rank 0: the words of all ranks, its own included. kTimedOut names the ranks that are missing;
  // kUnavailable: the store is gone.
  Expected<std::vector<std::string>> collect(std::chrono::milliseconds timeout);
  // Of some ranks among themselves, beside the words: what each of them says, in the order of `ranks`.
  // `name`: once in a round. As collect().
  Expected<std::vector<std::string>> exchange(const std::string& name, const std::vector<int>& ranks,
                                              const std::string& word, std::chrono::milliseconds timeout);
  // Rank 0 tells all others, and the round ends. An exception of torch if the store is gone, as in give().
  void announce(const std::string& word);
  // Others: what rank 0 says; the round ends. Errors as in collect().
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
  bool all_answered_ = false;           // likewise
  std::vector<std::string> announced_;  // keys that somebody may still have to read
  std::vector<std::string> exchanged_;  // likewise, until the round ends
};

}  // namespace muster
