// Which loop over a DataLoader the calling thread is in, and with which batch.
//
// For an error in the body of a loop that says nothing of data (a sample of a wrong shape is often seen by
// the model first), and for who must know that a rank has come to the end of its data. For loaders; each
// thread has its own. Nothing is formatted unless somebody asks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster {

// Over what is left of a loader's epochs up to `end`. No loader: none. `rank` of `world_size`: its part of
// the data, as it was made with.
struct TrainingLoop {
  std::uint64_t loader = 0;
  std::int64_t end = 0;
  int rank = 0;
  int world_size = 1;
  bool operator==(const TrainingLoop&) const = default;
};

// A number that no other has had in this process.
std::uint64_t new_loader_number();
// Until the loader says otherwise; `describe` must be callable until then. `memory`: where its tensors lie.
void take_batch(const TrainingLoop& loop, std::function<std::string()> describe,
                std::vector<const void*> memory = {});
void put_batch_back(std::uint64_t loader);
// The loader goes. If an exception is the reason, what it would say now stays to be asked for.
void forget_batch(std::uint64_t loader);
// Whether a loader of this process has ever given one, in any thread.
bool batch_was_taken();
// All its batches have been taken.
void end_loop(const TrainingLoop& loop);

// Empty if there is none.
std::string batch_in_hand();
// Whether a tensor of that batch lies there.
bool is_in_hand(const void* memory);
TrainingLoop current_loop();
// Called by end_loop(), until the same owner stops it, which waits for one that runs.
void listen_to_loop_ends(const void* owner, std::function<void(const TrainingLoop&)> listener);
void stop_listening_to_loop_ends(const void* owner);

}  // namespace muster
