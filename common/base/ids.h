// Types for the numbers that name things. Each kind of number has a type of its own, so that nobody can pass
// a rank where a node is meant.
//
// Ids can be compared. They have no arithmetic except next(). Plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <string>

namespace muster {

template <class Tag, class Number>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Number value) : value_(value) {}
  constexpr Number value() const { return value_; }
  constexpr Id next() const { return Id(value_ + 1); }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  Number value_{};
};

using NodeId = Id<struct NodeTag, std::int32_t>;               // position of a node in the job, from 0
using Incarnation = Id<struct IncarnationTag, std::uint32_t>;  // counts starts of one node's agent, from 1
using Rank = Id<struct RankTag, std::int32_t>;                 // number of a worker in the whole job, from 0
using LocalRank = Id<struct LocalRankTag, std::int32_t>;       // number of a worker on its node, from 0
using Term = Id<struct TermTag, std::uint64_t>;                // counts the launchers of one job, from 1
using Attempt = Id<struct AttemptTag,
                   std::uint64_t>;  // counts starts of the workers; never reused in one checkpoint directory
using Sequence = Id<struct SequenceTag, std::uint64_t>;  // counts frames of one source in one term, from 1

// One process of one node's agent. The process that replaces it has the next incarnation.
struct AgentId {
  NodeId node;
  Incarnation incarnation;
  auto operator<=>(const AgentId&) const = default;
};

// The state after `step` training steps, as written by `attempt`.
struct CheckpointId {
  std::uint64_t step = 0;
  Attempt attempt;
  auto operator<=>(const CheckpointId&) const = default;
};

// Returns whether checkpoint `one` is newer than `other`: its attempt is later, or the attempt is the same
// and the step is later.
constexpr bool is_newer(CheckpointId one, CheckpointId other) {
  return one.attempt != other.attempt ? one.attempt > other.attempt : one.step > other.step;
}

}  // namespace muster

template <class Tag, class Number>
struct std::hash<muster::Id<Tag, Number>> {
  std::size_t operator()(muster::Id<Tag, Number> id) const { return std::hash<Number>{}(id.value()); }
};

template <>
struct std::hash<muster::AgentId> {
  std::size_t operator()(const muster::AgentId& agent) const {
    const auto node = static_cast<std::uint32_t>(agent.node.value());
    return std::hash<std::uint64_t>{}((std::uint64_t{node} << 32U) | agent.incarnation.value());
  }
};

template <class Tag, class Number>
struct fmt::formatter<muster::Id<Tag, Number>> : fmt::formatter<Number> {
  template <class Context>
  auto format(muster::Id<Tag, Number> id, Context& context) const {
    return fmt::formatter<Number>::format(id.value(), context);
  }
};
