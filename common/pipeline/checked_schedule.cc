#include "common/pipeline/checked_schedule.h"

#include <algorithm>
#include <map>
#include <set>

namespace muster {

namespace {

// The instructions that have been performed. Each has its operation, its stage and its microbatch.
using Done = std::set<std::tuple<Op, int, int>>;

bool is_communication(Op op) {
  return op == Op::kSendForward || op == Op::kReceiveForward || op == Op::kSendBackward ||
         op == Op::kReceiveBackward;
}

class Checker {
 public:
  Checker(const Schedule& schedule, const ScheduleLimits& limits)
      : schedule_(schedule), limits_(limits), rank_of_(ranks_of_stages(schedule)) {
    for (const auto& order : schedule.ranks) {
      for (const Instruction& each : order) {
        communicates_ = communicates_ || is_communication(each.op);
        ends_ = ends_ || each.op == Op::kReduceGrad || each.op == Op::kStep;
      }
    }
  }

  Status check() {
    for (const auto part : {&Checker::check_places, &Checker::check_each_rank, &Checker::check_wholeness,
                            &Checker::check_messages, &Checker::check_progress}) {
      if (Status good = (this->*part)(); !good) return good;
    }
    return {};
  }

 private:
  static std::unexpected<Error> wrong(std::size_t rank, std::size_t place, const Instruction& instruction,
                                      std::string_view why) {
    return failure(ErrorCode::kInvalidArgument, "rank {}, instruction {} ({}): {}", rank, place + 1,
                   text_of(instruction), why);
  }

  // Checks that the stage and the microbatch of each instruction exist, and that each stage is on one rank.
  Status check_places() const {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& order = schedule_.ranks[rank];
      for (std::size_t i = 0; i < order.size(); ++i) {
        const Instruction& each = order[i];
        if (each.stage < 0 || each.stage >= schedule_.stages)
          return wrong(rank, i, each, fmt::format("there are {} stages", schedule_.stages));
        const bool of_batch = each.op == Op::kReduceGrad || each.op == Op::kStep;
        if (!of_batch && (each.microbatch < 0 || each.microbatch >= schedule_.microbatches))
          return wrong(rank, i, each, fmt::format("there are {} microbatches", schedule_.microbatches));
        const int home = rank_of_[static_cast<std::size_t>(each.stage)];
        if (home != static_cast<int>(rank) && home != Instruction::kNone)
          return wrong(rank, i, each, fmt::format("stage {} is on rank {}", each.stage, home));
        if (each.with_next &&
            (each.op != Op::kForward || i + 1 == order.size() || !is_backward(order[i + 1].op)))
          return wrong(rank, i, each, "runs together, but not with a backward");
      }
    }
    return {};
  }

  // Checks each rank by itself: the order and the number of the instructions within a stage, and the memory.
  Status check_each_rank() const {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& order = schedule_.ranks[rank];
      Done done;
      int held = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (const std::string why = why_not(done, order[i]); !why.empty())
          return wrong(rank, i, order[i], why);
        done.emplace(order[i].op, order[i].stage, order[i].microbatch);
        if (order[i].op == Op::kForward) ++held;
        if (is_last_backward(order[i].op)) --held;
        if (limits_.activations && held > *limits_.activations)
          return wrong(rank, i, order[i],
                       fmt::format("it holds the activations of {} microbatches, {} are allowed", held,
                                   *limits_.activations));
      }
    }
    return {};
  }

  // Returns the reason if the instruction is not allowed to follow those in `done`. Returns "" if it is
  // allowed.
  std::string why_not(const Done& done, const Instruction& each) const {
    const auto has = [&](Op op) { return done.contains({op, each.stage, each.microbatch}); };
    const bool has_gradient = has(Op::kBackward) || has(Op::kBackwardInput);
    if (has(each.op)) return "occurs twice";
    switch (each.op) {
      case Op::kForward:
        if (needs_message(each.stage, each.stage - 1) && !has(Op::kReceiveForward))
          return "nothing was received for it";
        return "";
      case Op::kBackward:
      case Op::kBackwardInput:
        if (!has(Op::kForward)) return "comes before the forward";
        if (has_gradient) return "the gradient of its input is there already";
        if (needs_message(each.stage, each.stage + 1) && !has(Op::kReceiveBackward))
          return "nothing was received for it";
        return "";
      case Op::kBackwardWeight:
        return has(Op::kBackwardInput) ? "" : "comes before the backward of the input";
      case Op::kSendForward: return has(Op::kForward) ? "" : "comes before the forward";
      case Op::kSendBackward: return has_gradient ? "" : "comes before the backward";
      case Op::kReceiveForward: return has(Op::kForward) ? "comes after the forward" : "";
      case Op::kReceiveBackward: return has_gradient ? "comes after the backward" : "";
      case Op::kReduceGrad:
        return count_gradients(done, each.stage) < schedule_.microbatches
                   ? "comes before the stage's last gradient"
                   : "";
      case Op::kStep: return has(Op::kReduceGrad) ? "" : "comes before the reduction";
    }
    return "";
  }

  bool needs_message(int stage, int other) const {
    return communicates_ && other >= 0 && other < schedule_.stages &&
           rank_of_[static_cast<std::size_t>(stage)] != rank_of_[static_cast<std::size_t>(other)];
  }

  static int count_gradients(const Done& done, int stage) {
    return static_cast<int>(std::ranges::count_if(done, [stage](const auto& each) {
      const auto [op, of, microbatch] = each;
      return of == stage && is_last_backward(op);
    }));
  }

  // Checks that nothing is missing: every stage does the forward and the backward pass of every microbatch,
  // its reduction and its step.
  Status check_wholeness() const {
    Done done;
    for (const auto& order : schedule_.ranks)
      for (const Instruction& each : order) done.emplace(each.op, each.stage, each.microbatch);
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const auto lacks = [stage](std::string_view what) {
        return failure(ErrorCode::kInvalidArgument, "stage {} lacks {}", stage, what);
      };
      for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch) {
        const auto has = [&](Op op) { return done.contains({op, stage, microbatch}); };
        if (!has(Op::kForward)) return lacks(fmt::format("the forward of microbatch {}", microbatch));
        if (!has(Op::kBackward) && !has(Op::kBackwardInput))
          return lacks(fmt::format("the backward of microbatch {}", microbatch));
        if (has(Op::kBackwardInput) && !has(Op::kBackwardWeight))
          return lacks(fmt::format("the backward of the weights of microbatch {}", microbatch));
      }
      if (ends_ && !done.contains({Op::kReduceGrad, stage, Instruction::kNone}))
        return lacks("the reduction of its gradients");
      if (ends_ && !done.contains({Op::kStep, stage, Instruction::kNone})) return lacks("its step");
    }
    return {};
  }

  // Checks the sends and receives of each pair of ranks. Each send of one rank must have its receive on the
  // other, and both ranks must have the same order.
  Status check_messages() const {
    if (!communicates_) return {};
    struct Message {
      Op sent;
      int stage;
      int microbatch;
      bool operator==(const Message&) const = default;
    };
    using Ways = std::map<std::pair<int, int>, std::vector<std::pair<Message, std::size_t>>>;
    Ways sent;
    Ways received;
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& order = schedule_.ranks[rank];
      for (std::size_t i = 0; i < order.size(); ++i) {
        const Instruction& each = order[i];
        if (!is_communication(each.op)) continue;
        const bool sends = each.op == Op::kSendForward || each.op == Op::kSendBackward;
        const bool up = each.op == Op::kSendForward || each.op == Op::kReceiveBackward;
        const int other = each.stage + (up ? 1 : -1);
        if (other < 0 || other >= schedule_.stages) return wrong(rank, i, each, "its other end has no stage");
        const int peer = rank_of_[static_cast<std::size_t>(other)];
        if (peer == static_cast<int>(rank)) return wrong(rank, i, each, "both ends are on this rank");
        const bool forward = each.op == Op::kSendForward || each.op == Op::kReceiveForward;
        const Message message{.sent = forward ? Op::kSendForward : Op::kSendBackward,
                              .stage = sends ? each.stage : other,
                              .microbatch = each.microbatch};
        const std::pair way =
            sends ? std::pair(static_cast<int>(rank), peer) : std::pair(peer, static_cast<int>(rank));
        (sends ? sent : received)[way].emplace_back(message, i);
      }
    }
    for (const auto& [way, messages] : sent) (void)received[way];
    for (const auto& [way, messages] : received) {
      const auto& from = sent[way];
      for (std::size_t i = 0; i < std::max(messages.size(), from.size()); ++i) {
        if (i >= messages.size())
          return wrong_message(way.first, from[i].second,
                               fmt::format("rank {} does not receive it", way.second));
        if (i >= from.size())
          return wrong_message(way.second, messages[i].second,
                               fmt::format("rank {} does not send it", way.first));
        if (from[i].first != messages[i].first)
          return wrong_message(way.second, messages[i].second,
                               fmt::format("rank {} sends {} at that point", way.first,
                                           text_of(at(way.first, from[i].second))));
      }
    }
    return {};
  }

  const Instruction& at(int rank, std::size_t place) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)][place];
  }
  std::unexpected<Error> wrong_message(int rank, std::size_t place, std::string_view why) const {
    return wrong(static_cast<std::size_t>(rank), place, at(rank, place), why);
  }

  // Plays the schedule through, without times. In this way it finds out whether some rank would wait forever.
  Status check_progress() const {
    std::vector<std::size_t> next(schedule_.ranks.size());
    Done done;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        const auto& order = schedule_.ranks[rank];
        for (; next[rank] < order.size() && is_ready(done, order, next[rank]); ++next[rank]) {
          done.emplace(order[next[rank]].op, order[next[rank]].stage, order[next[rank]].microbatch);
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const auto& order = schedule_.ranks[rank];
      if (next[rank] == order.size()) continue;
      const Instruction& each = order[next[rank]];
      // `own` says that `each` itself lacks its input. If it is false, the instruction that runs together
      // with `each` lacks its input.
      const bool own = !has_input(done, each);
      return wrong(rank, next[rank], each,
                   fmt::format("deadlock: it waits for {}, which never comes",
                               text_of(*awaited(own ? each : order[next[rank] + 1]))));
    }
    return {};
  }

  // Returns the instruction that `each` waits for, if any.
  std::optional<Instruction> awaited(const Instruction& each) const {
    switch (each.op) {
      case Op::kReceiveForward:
        return Instruction{.op = Op::kSendForward, .stage = each.stage - 1, .microbatch = each.microbatch};
      case Op::kReceiveBackward:
        return Instruction{.op = Op::kSendBackward, .stage = each.stage + 1, .microbatch = each.microbatch};
      default: return input_of(each, schedule_.stages);
    }
  }
  bool is_ready(const Done& done, const std::vector<Instruction>& order, std::size_t place) const {
    if (order[place].with_next && !has_input(done, order[place + 1])) return false;
    return has_input(done, order[place]);
  }
  bool has_input(const Done& done, const Instruction& each) const {
    const auto input = awaited(each);
    return !input || done.contains({input->op, input->stage, input->microbatch}) ||
           (input->op == Op::kBackward &&
            done.contains({Op::kBackwardInput, input->stage, input->microbatch}));
  }

  const Schedule& schedule_;
  const ScheduleLimits& limits_;
  std::vector<int> rank_of_;
  bool communicates_ = false;
  bool ends_ = false;
};

}  // namespace

Status check_schedule(const Schedule& schedule, const ScheduleLimits& limits) {
  return Checker(schedule, limits).check();
}

}  // namespace muster
