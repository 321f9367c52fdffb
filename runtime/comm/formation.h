// How the ranks of a job form a new group: all agree that they ask for the same, then the members create it.
//
// Uses the job's store, with a few messages per rank for any number of ranks. Collective over the job.
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

// Returns when all ranks of the job have called it, with a number for the new object that is the same on all
// ranks and never used again. Throws std::invalid_argument, the same on all ranks, if one rank's arguments
// are invalid or if two ranks ask for different things; std::runtime_error with the number of ranks that came
// in time.
int agree_to_form(const Job& job, const FormationRequest& request);

// This rank's handle on a group that all ranks have agreed to form; a member is connected with the other
// members.
Group form_group(const Job& job, std::vector<int> ranks, const std::string& key, const GroupOptions& options);

// "rank 3 is gone": the first of these ranks whose process is gone, as far as this rank can see, and that is
// still needed: may_be_gone(rank) is false. Else empty.
std::string find_gone(const Job::State& job, const std::vector<int>& ranks,
                      const std::function<bool(int)>& may_be_gone = nullptr);
// Makes room for connections from ranks that check whether this process is alive: if the queue is full, they
// must wait. Does something at most once per second.
void clear_presence(Job::State& job);
// True if the rank that served the job's store has ended: connecting to it would take the whole timeout.
bool store_is_gone(const Job::State& job);
// Opens another connection to the store's server, with the same prefixes. Throws std::exception within
// seconds if nobody answers; clone() would take the store's whole timeout.
c10::intrusive_ptr<c10d::Store> connect_again(const c10::intrusive_ptr<c10d::Store>& store);
// The number of collectives of the group that a rank had entered when it left in good order; else 0.
std::int64_t calls_of_who_left(c10d::Store& store, int rank);
// A process closes its connections shortly before it is gone, and a rank that fails tells the others shortly
// after. So an error is examined at once, and again after each of these pauses.
constexpr std::array<std::chrono::milliseconds, 5> kPauses{
    {std::chrono::milliseconds(50), std::chrono::milliseconds(100), std::chrono::milliseconds(200),
     std::chrono::milliseconds(400), std::chrono::milliseconds(800)}};
// As find_gone(), after an error: repeats with these pauses, because the rank may be about to end.
std::string who_is_gone(const Job::State& job, const std::vector<int>& ranks);

// Returns when the key exists, or after `limit`.
void wait_for_key(c10d::Store& store, const std::string& key, std::chrono::milliseconds limit);

}  // namespace muster
