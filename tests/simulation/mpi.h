// The simulated MPI server of an agent: at the beginning of each attempt it gathers the parts of all nodes,
// and checks that none is missing or doubled.
//
// Without processes: the simulated ranks do not wait for the answer.
#pragma once

#include <fmt/format.h>
#include <string>

#include "agent/io/mpi/mpi_host.h"
#include "common/base/check.h"

namespace muster::simulation {

class SimulatedMpi final : public agent::MpiHost {
 public:
  void begin(agent::MpiListener& listener) override { listener_ = &listener; }
  std::expected<void, agent::StartFailure> open(const wire::JobSpec&,
                                                const agent::OpenAttempt& attempt) override {
    const wire::PrepareAttempt& plan = attempt.plan;
    wanted_.clear();
    std::int32_t first = 0;
    for (const std::int32_t count : plan.rank_counts) {
      wanted_ += part_of(attempt.attempt, first);
      first += count;
    }
    CHECK(first == plan.world_size, "{} of {} ranks are somewhere", first, plan.world_size);
    listener_->mpi_asked({.verb = wire::MpiVerb::kFence,
                          .number = ++number_,
                          .key = "all",
                          .count = plan.node_count,
                          .text = wire::Bytes(part_of(attempt.attempt, plan.first_rank.value()))});
    return {};
  }
  void hear(const wire::MpiTold& told) override {
    CHECK(told.ok && told.number == number_, "answer {} to question {}", told.number, number_);
    // The parts are in no fixed order: a spare may have the first ranks.
    std::string parts(told.text.view());
    CHECK(parts.size() == wanted_.size(), "'{}' was gathered in place of '{}'", parts, wanted_);
    for (std::size_t at = 0; at < wanted_.size(); at = wanted_.find(';', at) + 1) {
      const std::string part = wanted_.substr(at, wanted_.find(';', at) + 1 - at);
      CHECK(parts.contains(part), "'{}' was gathered without '{}'", parts, part);
    }
  }
  std::string fault_of(LocalRank, wire::WorkerExited&) override { return ""; }
  void close() override {}

 private:
  static std::string part_of(Attempt attempt, std::int32_t first_rank) {
    return fmt::format("{}:{};", attempt, first_rank);
  }

  agent::MpiListener* listener_ = nullptr;
  std::string wanted_;
  std::uint64_t number_ = 0;
};

}  // namespace muster::simulation
