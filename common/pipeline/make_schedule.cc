#include "common/pipeline/make_schedule.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <set>

#include "common/base/check.h"

namespace muster {

namespace {

// The instructions of one rank. Each stage takes its microbatches in the order of their numbers.
class RankOrder {
 public:
  // Microbatches whose number is `limit` or higher are left out.
  explicit RankOrder(int limit) : limit_(limit) {}

  void forward(int stage) { add(Op::kForward, stage, of(stage).forwards++); }
  void backward(int stage) { add(Op::kBackward, stage, of(stage).backwards++); }
  void backward_of(int stage, int microbatch) { add(Op::kBackward, stage, microbatch); }
  void backward_input(int stage) {
    const int microbatch = of(stage).backwards++;
    owed_.push_back({stage, microbatch});
    add(Op::kBackwardInput, stage, microbatch);
  }
  // Adds the gradient of weights that has waited longest. If `stage` is given, only gradients of this stage
  // count.
  void backward_weight(std::optional<int> stage = {}) {
    const auto owed =
        std::ranges::find_if(owed_, [stage](const Owed& each) { return !stage || each.stage == *stage; });
    if (owed == owed_.end()) return;
    add(Op::kBackwardWeight, owed->stage, owed->microbatch);
    owed_.erase(owed);
  }
  void together(int forward_stage, int backward_stage) {
    forward(forward_stage);
    order_.back().with_next = true;
    backward(backward_stage);
  }

  int forwards(int stage) { return of(stage).forwards; }
  bool owes(std::optional<int> stage = {}) const {
    return std::ranges::any_of(owed_, [stage](const Owed& each) { return !stage || each.stage == *stage; });
  }
  std::vector<Instruction> take() { return std::move(order_); }

 private:
  struct Done {
    int forwards = 0;
    int backwards = 0;
  };
  struct Owed {
    int stage;
    int microbatch;
  };
  Done& of(int stage) {
    if (done_.size() <= static_cast<std::size_t>(stage)) done_.resize(static_cast<std::size_t>(stage) + 1);
    return done_[static_cast<std::size_t>(stage)];
  }
  void add(Op op, int stage, int microbatch) {
    if (microbatch < limit_) order_.push_back({.op = op, .stage = stage, .microbatch = microbatch});
  }

  int limit_;
  std::vector<Done> done_;
  std::deque<Owed> owed_;
  std::vector<Instruction> order_;
};

struct Shape {
  int p;
  int m;
  int v;
};

void repeat(int times, auto body) {
  for (int i = 0; i < times; ++i) body();
}

void gpipe(const Shape& shape, int rank, RankOrder& order) {
  repeat(shape.m, [&] { order.forward(rank); });
  repeat(shape.m, [&] { order.backward(rank); });
}

// A rank runs some forward passes before its first backward pass: just as many as the later ranks need to
// stay busy.
void one_forward_one_backward(const Shape& shape, int rank, RankOrder& order) {
  const int ahead = std::min(shape.p - 1 - rank, shape.m);
  repeat(ahead, [&] { order.forward(rank); });
  repeat(shape.m - ahead, [&] {
    order.forward(rank);
    order.backward(rank);
  });
  repeat(ahead, [&] { order.backward(rank); });
}

void looped_breadth_first(const Shape& shape, int rank, RankOrder& order) {
  for (int chunk = 0; chunk < shape.v; ++chunk)
    repeat(shape.m, [&] { order.forward(rank + chunk * shape.p); });
  // The backward passes begin with the activations that were made last.
  for (int chunk = shape.v - 1; chunk >= 0; --chunk) {
    for (int microbatch = shape.m - 1; microbatch >= 0; --microbatch)
      order.backward_of(rank + chunk * shape.p, microbatch);
  }
}

// Returns the number of microbatches in a round, which is about p. A rank runs all microbatches of a round
// through one chunk of its layers, and then through the next chunk.
int round_of(const Shape& shape) {
  return shape.m / std::max(1, shape.m / shape.p);
}

// Makes the order of an interleaved schedule. Before its first backward pass, a rank runs `hop` more forward
// passes than the next rank. If `late_weights` is set, each gradient of the weights is computed that many
// backward passes later.
void interleaved(const Shape& shape, int rank, int hop, std::optional<int> late_weights, RankOrder& order) {
  const int round = round_of(shape);
  const int all = shape.m * shape.v;
  const int ahead = std::min((shape.v - 1) * round + hop * (shape.p - 1 - rank), all);
  const auto forward = [&](int i) { order.forward(i / round % shape.v * shape.p + rank); };
  const auto backward = [&](int i) {
    const int stage = (shape.v - 1 - i / round % shape.v) * shape.p + rank;
    if (!late_weights) return order.backward(stage);
    order.backward_input(stage);
    if (i >= *late_weights) order.backward_weight();
  };
  for (int i = 0; i < ahead; ++i) forward(i);
  for (int i = ahead; i < all; ++i) {
    forward(i);
    backward(i - ahead);
  }
  for (int i = all - ahead; i < all; ++i) backward(i);
  while (order.owes()) order.backward_weight();
}

void zbv(const Shape& shape, int rank, RankOrder& order) {
  const int down = rank;
  const int up = 2 * shape.p - 1 - rank;
  const auto whole_backward = [&](int stage) {
    order.backward_input(stage);
    order.backward_weight(stage);
  };
  const int m = std::max(2 * shape.p - 1, shape.m);  // RankOrder ignores those beyond shape.m
  repeat(2 * (shape.p - rank) - 1, [&] { order.forward(down); });
  repeat(rank, [&] {
    order.forward(up);
    order.forward(down);
  });
  repeat(shape.p - rank, [&] {
    order.forward(up);
    whole_backward(up);
  });
  while (order.forwards(up) < order.forwards(down) || order.forwards(down) < m) {
    if (order.forwards(down) < m) order.forward(down);
    whole_backward(down);
    order.forward(up);
    whole_backward(up);
  }
  repeat(rank, [&] {
    order.backward_input(down);
    order.backward_input(up);
  });
  repeat(shape.p - rank, [&] {
    order.backward_input(down);
    order.backward_weight(down);
  });
  while (order.owes(up)) order.backward_weight(up);
  while (order.owes(down)) order.backward_weight(down);
}

void dual_pipe_v(const Shape& shape, int rank, RankOrder& order) {
  const int down = rank;
  const int up = 2 * shape.p - 1 - rank;
  const int behind = shape.p - 1 - rank;  // number of later ranks
  repeat(2 * behind, [&] { order.forward(down); });
  repeat(rank + 1, [&] {
    order.forward(down);
    order.forward(up);
  });
  repeat(behind, [&] {
    order.backward_input(up);
    order.backward_weight();
    order.forward(up);
  });
  for (int i = 0; i < shape.m - 2 * shape.p + rank + 1; ++i) {
    // On the last rank, the first forward and the first backward pass run one after the other. If they ran
    // together, the bubble would be larger.
    if (i == 0 && behind == 0) {
      order.forward(down);
      order.backward(up);
    } else {
      order.together(down, up);
    }
    order.together(up, down);
  }
  repeat(behind, [&] {
    order.backward(up);
    order.together(up, down);
  });
  // The first `whole` backward passes compute all gradients at once. The other passes compute the gradients
  // of the inputs only. Their gradients of the weights follow when the rank would otherwise wait.
  const int backwards = 2 * (rank + 1);
  const int whole = (rank + 1) / 2 * 2 + (rank % 2 == 0 ? 1 : 0);
  for (int i = 0; i < backwards; ++i) {
    const int stage = i % 2 == 0 ? up : down;
    if (i < whole)
      order.backward(stage);
    else
      order.backward_input(stage);
  }
  repeat(behind, [&] {
    order.backward_weight();
    order.backward_input(down);
  });
  while (order.owes()) order.backward_weight();
}

enum class Kind {
  kGPipe,
  k1F1B,
  kInterleaved1F1B,
  kLoopedBFS,
  kZBH1,
  kInterleavedZeroBubble,
  kZBV,
  kDualPipeV
};

struct Named {
  std::string_view name;
  Kind kind;
  int least_chunks;
  int most_chunks;  // kAny: unlimited
  int usual_chunks;
};
constexpr int kAny = 1 << 10;
constexpr std::array kSchedules{
    Named{"GPipe", Kind::kGPipe, 1, 1, 1},
    Named{"1F1B", Kind::k1F1B, 1, 1, 1},
    Named{"Interleaved1F1B", Kind::kInterleaved1F1B, 1, kAny, 2},
    Named{"LoopedBFS", Kind::kLoopedBFS, 1, kAny, 2},
    Named{"ZBH1", Kind::kZBH1, 1, 1, 1},
    Named{"InterleavedZeroBubble", Kind::kInterleavedZeroBubble, 1, kAny, 2},
    Named{"ZBVZeroBubble", Kind::kZBV, 2, 2, 2},
    Named{"DualPipeV", Kind::kDualPipeV, 2, 2, 2},
};
constexpr auto kNames = [] {
  std::array<std::string_view, kSchedules.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names.at(i) = kSchedules.at(i).name;
  return names;
}();

std::string plain(std::string_view name) {
  std::string letters;
  for (const char letter : name) {
    if (letter != '-' && letter != '_' && letter != ' ')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  constexpr std::string_view kBefore = "schedule";
  return letters.starts_with(kBefore) && letters.size() > kBefore.size() ? letters.substr(kBefore.size())
                                                                         : letters;
}

Status check(const Named& named, const Shape& shape) {
  constexpr auto kWrong = ErrorCode::kInvalidArgument;
  if (shape.v < named.least_chunks || shape.v > named.most_chunks)
    return failure(kWrong, "{} has {} a rank, not {}", named.name,
                   named.most_chunks == kAny ? fmt::format("{} chunks or more", named.least_chunks)
                   : named.most_chunks == 1  ? "one stage"
                                             : fmt::format("{} chunks", named.most_chunks),
                   shape.v);
  const bool in_rounds = named.kind == Kind::kInterleaved1F1B || named.kind == Kind::kZBH1 ||
                         named.kind == Kind::kInterleavedZeroBubble;
  const int rounds = std::max(1, shape.m / shape.p);
  if (in_rounds && shape.m % rounds != 0)
    return failure(
        kWrong, "{} cannot divide {} microbatches over {} ranks into {} equal rounds: give {} or {}",
        named.name, shape.m, shape.p, rounds, shape.m / rounds * rounds, (shape.m / rounds + 1) * rounds);
  if (named.kind == Kind::kDualPipeV && shape.m < 2 * shape.p)
    return failure(kWrong, "{} needs at least as many microbatches as stages: {} over {} ranks, not {}",
                   named.name, 2 * shape.p, shape.p, shape.m);
  return {};
}

std::vector<Instruction> order_of(Kind kind, const Shape& shape, int rank) {
  RankOrder order(shape.m);
  switch (kind) {
    case Kind::kGPipe: gpipe(shape, rank, order); break;
    case Kind::k1F1B: one_forward_one_backward(shape, rank, order); break;
    case Kind::kInterleaved1F1B: interleaved(shape, rank, 2, {}, order); break;
    case Kind::kLoopedBFS: looped_breadth_first(shape, rank, order); break;
    case Kind::kZBH1:
    case Kind::kInterleavedZeroBubble: interleaved(shape, rank, 1, rank, order); break;
    case Kind::kZBV: zbv(shape, rank, order); break;
    case Kind::kDualPipeV: dual_pipe_v(shape, rank, order); break;
  }
  return order.take();
}

// The results that each rank has computed or received so far.
class Arrivals {
 public:
  void add(int rank, Op op, int stage, int microbatch) { there_.emplace(rank, op, stage, microbatch); }
  bool has(int rank, Op op, int stage, int microbatch) const {
    return there_.contains({rank, op, stage, microbatch});
  }

 private:
  std::set<std::tuple<int, Op, int, int>> there_;
};

class Communication {
 public:
  explicit Communication(const Schedule& schedule)
      : schedule_(schedule), rank_of_(ranks_of_stages(schedule)), next_(schedule.ranks.size()) {
    result_ = {.name = schedule.name,
               .stages = schedule.stages,
               .microbatches = schedule.microbatches,
               .ranks = std::vector<std::vector<Instruction>>(schedule.ranks.size())};
  }

  Expected<Schedule> add() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) moved = advance(rank) || moved;
    }
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      if (next_[rank] < schedule_.ranks[rank].size())
        return failure(ErrorCode::kInvalidArgument, "rank {} waits forever before {}", rank,
                       text_of(schedule_.ranks[rank][next_[rank]]));
      finish(rank);
    }
    return std::move(result_);
  }

 private:
  // Takes the rank's next instruction, or the next two if they run together. If all inputs have arrived, adds
  // these instructions to the result, and returns true. Otherwise returns false.
  bool advance(std::size_t rank) {
    const auto& order = schedule_.ranks[rank];
    const std::size_t begin = next_[rank];
    if (begin == order.size()) return false;
    const std::size_t end = std::min(begin + (order[begin].with_next ? 2 : 1), order.size());
    for (std::size_t i = begin; i < end; ++i)
      if (!is_ready(static_cast<int>(rank), order[i])) return false;
    for (std::size_t i = begin; i < end; ++i) result_.ranks[rank].push_back(order[i]);
    for (std::size_t i = begin; i < end; ++i) done(static_cast<int>(rank), order[i]);
    next_[rank] = end;
    return true;
  }

  bool is_ready(int rank, const Instruction& each) const {
    const auto input = input_of(each, schedule_.stages);
    return !input || arrivals_.has(rank, input->op, input->stage, input->microbatch);
  }

  void done(int rank, const Instruction& each) {
    const bool forward = each.op == Op::kForward;
    if (!forward && each.op != Op::kBackward && each.op != Op::kBackwardInput) return;
    const Op made = forward ? Op::kForward : Op::kBackward;
    arrivals_.add(rank, made, each.stage, each.microbatch);
    const int to = forward ? each.stage + 1 : each.stage - 1;
    if (to < 0 || to == schedule_.stages) return;
    const int peer = rank_of_[static_cast<std::size_t>(to)];
    if (peer == rank || peer == Instruction::kNone) return;
    arrivals_.add(peer, made, each.stage, each.microbatch);
    result_.ranks[static_cast<std::size_t>(rank)].push_back(
        {.op = forward ? Op::kSendForward : Op::kSendBackward,
         .stage = each.stage,
         .microbatch = each.microbatch});
    result_.ranks[static_cast<std::size_t>(peer)].push_back(
        {.op = forward ? Op::kReceiveForward : Op::kReceiveBackward,
         .stage = to,
         .microbatch = each.microbatch});
  }

  // Adds two instructions for each stage. The reduction of gradients goes after the stage's last gradient and
  // after the sends that follow that gradient. The step of the optimizer goes to the end.
  void finish(std::size_t rank) {
    auto& order = result_.ranks[rank];
    const auto is_send = [](const Instruction& each) {
      return each.op == Op::kSendForward || each.op == Op::kSendBackward;
    };
    std::set<int> stages;
    for (const Instruction& each : order) stages.insert(each.stage);
    for (const int stage : stages) {
      const auto last = std::find_if(order.rbegin(), order.rend(), [&](const Instruction& each) {
        return each.stage == stage && is_last_backward(each.op);
      });
      if (last == order.rend()) continue;
      const auto place = std::find_if_not(last.base(), order.end(), is_send);
      order.insert(place, {.op = Op::kReduceGrad, .stage = stage, .microbatch = Instruction::kNone});
    }
    for (const int stage : stages)
      order.push_back({.op = Op::kStep, .stage = stage, .microbatch = Instruction::kNone});
  }

  const Schedule& schedule_;
  std::vector<int> rank_of_;
  std::vector<std::size_t> next_;
  Arrivals arrivals_;
  Schedule result_;
};

}  // namespace

std::span<const std::string_view> schedule_names() {
  return kNames;
}

std::optional<std::string_view> find_schedule_name(std::string_view name) {
  const std::string wanted = plain(name) == "zbv" ? "zbvzerobubble" : plain(name);
  const auto found =
      std::ranges::find(kSchedules, wanted, [](const Named& each) { return plain(each.name); });
  return found == kSchedules.end() ? std::nullopt : std::optional(found->name);
}

Expected<Schedule> make_schedule(std::string_view name, const ScheduleRequest& request) {
  const auto known = find_schedule_name(name);
  if (!known)
    return failure(ErrorCode::kInvalidArgument, "unknown schedule {}: use one of {}", name,
                   fmt::join(kNames, ", "));
  const Named& named = *std::ranges::find(kSchedules, *known, &Named::name);
  CHECK(request.ranks >= 1 && request.microbatches >= 1);
  const Shape shape{
      .p = request.ranks, .m = request.microbatches, .v = request.chunks.value_or(named.usual_chunks)};
  if (Status possible = check(named, shape); !possible) return std::unexpected(possible.error());
  Schedule schedule{
      .name = std::string(named.name), .stages = shape.p * shape.v, .microbatches = shape.m, .ranks = {}};
  for (int rank = 0; rank < shape.p; ++rank) schedule.ranks.push_back(order_of(named.kind, shape, rank));
  return schedule;
}

Expected<Schedule> with_communication(const Schedule& schedule) {
  return Communication(schedule).add();
}

}  // namespace muster
