// How the ranks of a job come to have a new group: all agree that they ask for the same, and then the members
// make it.
//
// Over the job's store: a few messages a rank, whatever the number of ranks. Collective over the job.
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
  std::string function;  // that was called: "new_group"
  std::string text;      // what this rank asks for, in words
  std::string refusal;   // why it cannot have it; empty: it can
};

// Returns, when all ranks of the job have come, a number for what is made, which is the same on all and used
// once. std::invalid_argument, the same on all ranks, says what one of them cannot have, or which two ask for
// different things; std::runtime_error how many have come in time.
int agree_to_form(const Job& job, const FormationRequest& request);

// This rank's handle on a group that all have agreed to form; on a member, connected with the others.
Group form_group(const Job& job, std::vector<int> ranks, const std::string& key, const GroupOptions& options);

// "rank 3 is gone": the first of these ranks whose process is, as far as can be seen from here, and that may
// not be; else empty.
std::string find_gone(const Job::State& job, const std::vector<int>& ranks,
                      const std::function<bool(int)>& may_be_gone = nullptr);
// Makes room for those who look whether this process is there: a full queue lets them wait. At most once a
// second.
void clear_presence(Job::State& job);
// Whether the rank that served the job's store has ended: connecting to it would take the whole time-out.
bool store_is_gone(const Job::State& job);
// Another connection to where the store is served, under the same prefixes; std::exception within seconds
// where nobody answers, and not after the store's whole time-out, as of clone().
c10::intrusive_ptr<c10d::Store> connect_again(const c10::intrusive_ptr<c10d::Store>& store);
// How many collectives of the group with this store a rank had entered when it left in good order; else 0.
std::int64_t calls_of_who_left(c10d::Store& store, int rank);
// A process closes its connections before it is gone, and one that fails tells the others a little later: an
// error is looked into at once and after each of these times.
constexpr std::array<std::chrono::milliseconds, 5> kPauses{
    {std::chrono::milliseconds(50), std::chrono::milliseconds(100), std::chrono::milliseconds(200),
     std::chrono::milliseconds(400), std::chrono::milliseconds(800)}};
// The same after an error: one that is about to end is waited for, so long, if it can be seen at all.
std::string who_is_gone(const Job::State& job, const std::vector<int>& ranks);

// Returns when the key is there, or the time is over.
void wait_for_key(c10d::Store& store, const std::string& key, std::chrono::milliseconds limit);

}  // namespace muster
