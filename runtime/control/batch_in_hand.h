// Which batch the calling thread has in hand, for an error in the body of its loop that says nothing of data:
// a sample of a wrong shape is often seen by the model first.
//
// For loaders; each thread has its own. Nothing is formatted unless somebody asks.
#pragma once

#include <functional>
#include <string>

namespace muster {

// Until `owner` says otherwise; `describe` must be callable until then.
void take_batch(const void* owner, std::function<std::string()> describe);
void put_batch_back(const void* owner);
// The owner goes. If an exception is the reason, what it would say now stays to be asked for.
void forget_batch(const void* owner);
// Empty if there is none.
std::string batch_in_hand();

}  // namespace muster
