// The DataLoader loop that the calling thread is in, and its current batch.
//
// A loader sets the loop and the batch; each thread has its own loop. If an error of torch in the body of a
// loop is not caught, a description of the batch is printed with the error, because the model is often the
// first to see a sample of a wrong shape. DistributedDataParallel listens for the end of the loop, to tell
// other ranks that this rank has no more data. The description of a batch is made only when a caller asks for
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster {

// A loop over the batches of a loader, from its place to the end of epoch `end - 1`. A value with loader == 0
// stands for a thread that is not in a loop. `rank` and `world_size` are those of the loader.
struct TrainingLoop {
  std::uint64_t loader = 0;
  std::int64_t end = 0;
  int rank = 0;
  int world_size = 1;
  bool operator==(const TrainingLoop&) const = default;
};

// Returns a number that is unique in this process.
std::uint64_t new_loader_number();
// Makes this the current batch, until the loader replaces it. `describe` must stay callable until then.
// `memory` has the addresses of the batch's tensors.
void take_batch(const TrainingLoop& loop, std::function<std::string()> describe,
                std::vector<const void*> memory = {});
void put_batch_back(std::uint64_t loader);
// The loader's destructor calls this; from then on there is no current batch. If an exception destroys the
// loader, the batch's description is kept for the error message.
void forget_batch(std::uint64_t loader);
// True if a loader of this process, in any thread, has returned a batch.
bool batch_was_taken();
// Records that all batches of this loop have been taken.
void end_loop(const TrainingLoop& loop);

// Returns the description of the current batch. If there is no current batch, returns "".
std::string batch_in_hand();
// True if a tensor of the current batch is at this address.
bool is_in_hand(const void* memory);
TrainingLoop current_loop();
// After listen_to_loop_ends(), end_loop() calls the listener. stop_listening_to_loop_ends() removes the
// listener, and waits for a call of the listener that is in progress.
void listen_to_loop_ends(const void* owner, std::function<void(const TrainingLoop&)> listener);
void stop_listening_to_loop_ends(const void* owner);

}  // namespace muster
