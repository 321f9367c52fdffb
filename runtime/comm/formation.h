// Forms a new group of a job's ranks: first all ranks agree that they ask for the same group, then its
// members create it.
//
// Uses the job's store. Each rank sends only a few messages, however many ranks there are. All ranks of the
// job call agree_to_form() together.
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

// When all ranks of the job have called it, returns a number for the new object. The number is the same on
// all ranks, and no later object gets it. If one rank's arguments are invalid, or if two ranks ask for
// different things, throws std::invalid_argument with the same message on all ranks. If some ranks do not
// come in time, throws std::runtime_error with the number of those that came.
int agree_to_form(const Job& job, const FormationRequest& request);

// Returns this rank's handle on a group that all ranks have agreed to form. If this rank is a member,
// connects it with the other members.
Group form_group(const Job& job, std::vector<int> ranks, const std::string& key, const GroupOptions& options);

// Returns "rank 3 is gone" for the first of these ranks whose process is gone, as far as this rank can see.
// Skips ranks for which may_be_gone(rank) is true, because nobody needs them any more. Returns "" if there is
// no such rank.
std::string find_gone(const Job::State& job, const std::vector<int>& ranks,
                      const std::function<bool(int)>& may_be_gone = nullptr);
// Closes the connections with which other ranks have checked whether this process is alive. Otherwise the
// queue for such connections could fill up, and ranks would have to wait. Acts at most once per second.
void clear_presence(Job::State& job);
// True if the rank that served the job's store has ended. Check this before connecting to the store, because
// connecting to a store that is gone takes the whole timeout.
bool store_is_gone(const Job::State& job);
// Opens another connection to the store's server, with the same prefixes. Throws std::exception within
// seconds if nobody answers; clone() would take the store's whole timeout.
c10::intrusive_ptr<c10d::Store> connect_again(const c10::intrusive_ptr<c10d::Store>& store);
// Returns how many collectives `rank` had entered when it left the group in good order; 0: it has not left.
std::int64_t calls_of_who_left(c10d::Store& store, int rank);
// The cause of an error can become visible late: a process closes its connections shortly before it is gone,
// and a rank tells the others of its failure with a delay. So callers look for the cause at once, and again
// after each of these pauses.
constexpr std::array<std::chrono::milliseconds, 5> kPauses{
    {std::chrono::milliseconds(50), std::chrono::milliseconds(100), std::chrono::milliseconds(200),
     std::chrono::milliseconds(400), std::chrono::milliseconds(800)}};
// Call it after an error. Calls find_gone() before each of kPauses until a rank is found, because a rank may
// be about to end.
std::string who_is_gone(const Job::State& job, const std::vector<int>& ranks);

// Returns when the key exists, or after `limit`.
void wait_for_key(c10d::Store& store, const std::string& key, std::chrono::milliseconds limit);

}  // namespace muster
