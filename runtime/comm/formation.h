// Forms a new group from ranks of a job. First, all ranks of the job agree that they ask for the same group.
// Then the members of the group create it.
//
// All ranks of the job call agree_to_form() together. The functions use the store of the job. Each rank sends
// only a few messages, no matter how many ranks there are.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <muster/comm/job.h>
#include <string>
#include <vector>

namespace muster {

struct FormationRequest {
  std::string function;  // the function that was called: "new_group"
  std::string text;      // this rank's arguments, in words
  std::string refusal;   // why the arguments are invalid; empty: they are valid
};

// All ranks of the job call agree_to_form(). When all have called it, it returns a number for the new object.
// The number is the same on all ranks, and no other object gets this number. If the arguments of a rank are
// invalid, or if two ranks ask for different things, throws std::invalid_argument with the same message on
// all ranks. If some ranks do not come in time, throws std::runtime_error, which says how many ranks have
// come.
int agree_to_form(const Job& job, const FormationRequest& request);

// All ranks have agreed to form a group. Returns this rank's handle on the group. If this rank is a member,
// this function also connects it with the other members.
Group form_group(const Job& job, std::vector<int> ranks, const std::string& key, const GroupOptions& options);

// Returns a text such as "rank 3 is gone". It names the first of `ranks` whose process has ended, as far as
// this rank can see. Returns "" if there is no such rank. This function leaves out each rank for which
// may_be_gone(rank) is true, because nobody needs that rank any more.
std::string find_gone(const Job::State& job, const std::vector<int>& ranks,
                      const std::function<bool(int)>& may_be_gone = nullptr);
// Other ranks connect to this process to check whether it is alive. This function closes such connections, at
// most once per second. Otherwise the queue for them could fill up, and the ranks that check would have to
// wait.
void clear_presence(Job::State& job);
// Returns true if the rank that served the job's store has ended. Call it before you connect to the store,
// because connecting to a store that no longer exists takes the whole timeout.
bool store_is_gone(const Job::State& job);
// Opens another connection to the store's server. It uses the same prefixes for the keys. If nobody answers,
// it throws std::exception within seconds. clone() would wait for the store's whole timeout.
c10::intrusive_ptr<c10d::Store> connect_again(const c10::intrusive_ptr<c10d::Store>& store);
// If `rank` has left the group in good order, returns how many collectives it had entered until then. If it
// has not left, returns 0.
std::int64_t calls_of_who_left(c10d::Store& store, int rank);
// The cause of an error can become visible late. A process closes its connections shortly before it ends. And
// a rank that has failed tells this to the others only after some time. So callers look for the cause several
// times, and make these pauses in between.
constexpr std::array<std::chrono::milliseconds, 5> kPauses{
    {std::chrono::milliseconds(50), std::chrono::milliseconds(100), std::chrono::milliseconds(200),
     std::chrono::milliseconds(400), std::chrono::milliseconds(800)}};
// Call who_is_gone() after an error. It calls find_gone() before each of the pauses in kPauses, until
// find_gone() finds a rank that has ended. It asks several times because a rank may only be about to end.
std::string who_is_gone(const Job::State& job, const std::vector<int>& ranks);

// Waits until the key exists, but not longer than `limit`.
void wait_for_key(c10d::Store& store, const std::string& key, std::chrono::milliseconds limit);

}  // namespace muster
