#include "launcher/core/verdict.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace muster::launcher {

namespace {

// The launcher's own verdicts: a worker's number must not be taken for one of them.
constexpr int kOwnExitCodes[] = {69, 75, 93, 124, 125, 253};

const WorkerEnd* first_failure(const AttemptFacts& facts) {
  const WorkerEnd* first = nullptr;
  for (const WorkerEnd& end : facts.ends) {
    if (!end.failed() || end.after_stop) continue;
    if (first == nullptr || std::pair(end.at, end.rank) < std::pair(first->at, first->rank)) first = &end;
  }
  return first;
}

const AgentLoss* first_loss(const AttemptFacts& facts) {
  const auto first = std::ranges::min_element(
      facts.losses, {}, [](const AgentLoss& loss) { return std::pair(loss.at, loss.node); });
  return first == facts.losses.end() ? nullptr : &*first;
}

// The peers of a node that dies notice it through their own connections, as fast as the launcher does: what
// fails elsewhere just before the loss is seen is its victim. What fails on the node itself is told by an
// agent that still lives, and came first.
bool precedes(const AgentLoss& loss, const WorkerEnd& failure) {
  constexpr Duration kNoticed = std::chrono::milliseconds(100);
  return loss.at <= failure.at + (loss.node == failure.node ? Duration::zero() : kNoticed);
}

Verdict refused(const Refusal& refusal) {
  const std::string where = refusal.node ? fmt::format("node{}: ", *refusal.node) : "";
  return {.kind = Verdict::Kind::kRefused,
          .exit_code = refusal.exit_code,
          .origin = "launcher",
          .cause = where + refusal.message,
          .culprit = {},
          .node = refusal.node};
}

Verdict interrupted(int signal) {
  return {.kind = Verdict::Kind::kInterrupted,
          .exit_code = 128 + signal,
          .origin = "user",
          .cause = fmt::format("stopped by {}", signal_name(signal)),
          .culprit = {},
          .node = {}};
}

Verdict lost(const AgentLoss& loss) {
  return {.kind = Verdict::Kind::kAgentLost,
          .exit_code = kExitNodesMissing,
          .origin = "launcher",
          .cause = fmt::format("node{} was lost: {}", loss.node, loss.how),
          .culprit = {},
          .node = loss.node};
}

Verdict failed(const WorkerEnd& end) {
  return {.kind = Verdict::Kind::kWorkerFailed,
          .exit_code = exit_code_for(end),
          .origin = "worker",
          .cause = fmt::format("rank {} (node{}) {}", end.rank, end.node, end_text(end)),
          .culprit = end,
          .node = end.node};
}

bool all_succeeded(const AttemptFacts& facts) {
  return facts.ends.size() == static_cast<std::size_t>(facts.world_size) &&
         std::ranges::none_of(facts.ends, &WorkerEnd::failed);
}

}  // namespace

Verdict judge(const AttemptFacts& facts) {
  if (facts.interrupted_by) return interrupted(*facts.interrupted_by);
  if (facts.refusal) return refused(*facts.refusal);
  const WorkerEnd* failure = first_failure(facts);
  const AgentLoss* loss = first_loss(facts);
  Verdict verdict;
  if (loss != nullptr && (failure == nullptr || precedes(*loss, *failure))) {
    verdict = lost(*loss);
    verdict.collateral_count = facts.world_size;
  } else if (failure != nullptr) {
    verdict = failed(*failure);
    verdict.collateral_count =
        static_cast<std::int32_t>(std::ranges::count_if(facts.ends, &WorkerEnd::failed)) - 1;
  } else if (all_succeeded(facts)) {
    return {.kind = Verdict::Kind::kSucceeded,
            .exit_code = 0,
            .origin = "none",
            .cause = "all ranks succeeded",
            .culprit = {},
            .node = {}};
  } else {
    verdict.origin = "launcher";
    verdict.cause =
        fmt::format("{} of {} ranks succeeded, and how the others ended is not known",
                    std::ranges::count_if(facts.ends, [](const WorkerEnd& end) { return !end.failed(); }),
                    facts.world_size);
  }
  return verdict;
}

Verdict stopped_after(const Verdict& failed, int signal) {
  return ended_after(failed, interrupted(signal));
}

Verdict ended_after(const Verdict& failed, const Verdict& end) {
  Verdict verdict = failed;
  verdict.kind = end.kind;
  verdict.exit_code = end.kind == Verdict::Kind::kRefused ? kExitInternal : end.exit_code;
  verdict.origin = end.origin;
  verdict.cause = fmt::format("{}, after {}", end.cause, failed.cause);
  return verdict;
}

int exit_code_of_path_error(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kPermission:
    case ErrorCode::kCorrupt: return kExitUsage;
    default: return kExitInternal;
  }
}

int exit_code_for(const WorkerEnd& end) {
  if (end.signal != 0) return 128 + end.signal;
  return std::ranges::find(kOwnExitCodes, end.exit_code) == std::end(kOwnExitCodes) ? end.exit_code : 1;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string end_text(const WorkerEnd& end) {
  if (end.signal != 0) return fmt::format("was killed by {}", signal_name(end.signal));
  return fmt::format("exited with code {}", end.exit_code);
}

std::string message_of_error_file(std::string_view json_text) {
  auto value = nlohmann::json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  // {"message": {"message": "...", "extraInfo": {...}}}, or {"message": "..."}.
  for (int depth = 0; depth < 2 && value.is_object() && value.contains("message"); ++depth) {
    nlohmann::json inner = std::move(value["message"]);
    value = std::move(inner);
  }
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace muster::launcher
