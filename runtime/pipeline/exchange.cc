#include "runtime/pipeline/exchange.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/check.h"
#include "runtime/comm/formation.h"
#include "runtime/comm/job_state.h"

namespace muster {

namespace {

// Of receives that nobody waits for yet, from each rank: one while it is being used, one that arrives
// meanwhile.
constexpr std::size_t kPostedAhead = 2;
constexpr int kMessageTag = 0x6d70;  // so that the program's own messages do not meet these

// What two ranks send each other first makes a connection for which both must come, so all pairs do so in one
// order.
void connect(const PipelineGroups& groups) {
  const std::vector<int>& ranks = groups.up.ranks();
  const auto place = static_cast<std::size_t>(groups.up.rank());
  const at::Tensor nothing = at::zeros({1}, groups.up.device());
  for (std::size_t low = 0; low < ranks.size(); ++low) {
    for (std::size_t high = low + 1; high < ranks.size(); ++high) {
      if (place == low) {
        send(groups.up, nothing, ranks[high], kMessageTag);
        recv(groups.down, nothing, ranks[high], kMessageTag);
      } else if (place == high) {
        recv(groups.up, nothing, ranks[low], kMessageTag);
        send(groups.down, nothing, ranks[low], kMessageTag);
      }
    }
  }
}

}  // namespace

PipelineGroups groups_of_pipeline(const Group& group) {
  if (!group.device().is_cuda()) return {group, group};
  const Group::State& state = state_of(group);
  const std::string key = fmt::format("{}/down{}", state.key, state.call_count.load());
  // Not split off the job's communicator, in which all ranks of the job would have to take part.
  const PipelineGroups groups{group, form_group(group.job(), group.ranks(), key,
                                                {.name = group.name() + ", back", .nccl = NcclOptions()})};
  connect(groups);
  return groups;
}

Exchange::Line::Line(const Channel& of, const PipelineGroups& groups)
    : channel(of),
      peer(groups.up.ranks()[static_cast<std::size_t>(of.peer)]),
      incoming(of.peer < groups.up.rank() ? groups.up : groups.down),
      outgoing(of.peer < groups.up.rank() ? groups.down : groups.up) {}

Exchange::Exchange(const PipelineGroups& groups, const ExchangePlan& plan,
                   const std::map<int, StageKinds>& kinds)
    : device_(groups.up.device()), kinds_(kinds) {
  for (const Channel& each : plan.channels) lines_.emplace_back(each, groups);
  for (Line& each : lines_) post(each, kPostedAhead);
}

std::vector<at::Tensor> Exchange::buffers_for(const StageMessage& message) const {
  const StageKinds& kinds = kinds_.at(message.stage);
  const bool forward = message.op == Op::kForward;
  std::vector<at::Tensor> buffers;
  for (const TensorKind& each : forward ? kinds.inputs : kinds.outputs) {
    if (!forward && !each.needs_grad) continue;
    buffers.push_back(at::empty(each.shape, at::device(device_).dtype(each.type)));
  }
  return buffers;
}

void Exchange::post(Line& line, std::size_t until) {
  for (; line.posted < std::min(until, line.channel.in.size()); ++line.posted) {
    Posted& next = line.receives[line.posted];
    next.tensors = buffers_for(line.channel.in[line.posted]);
    for (const at::Tensor& each : next.tensors)
      next.works.push_back(irecv(line.incoming, each, line.peer, kMessageTag));
  }
}

void Exchange::let_go(Line& line, int arrived) {
  for (; line.sent_away < arrived && !line.sends.empty(); ++line.sent_away) {
    for (Work& each : line.sends.front().works) each.wait();
    line.sends.pop_front();
  }
}

Exchange::Line* Exchange::line_of(const StageMessage& message, std::vector<StageMessage> Channel::* messages,
                                  std::size_t& place) {
  for (Line& each : lines_) {
    const std::vector<StageMessage>& all = each.channel.*messages;
    const auto found = std::ranges::find(all, message);
    if (found == all.end()) continue;
    place = static_cast<std::size_t>(found - all.begin());
    return &each;
  }
  return nullptr;
}

std::vector<at::Tensor> Exchange::take(const StageMessage& message) {
  std::size_t place = 0;
  Line* line = line_of(message, &Channel::in, place);
  if (line == nullptr) {
    const auto found = std::ranges::find(here_, message, &decltype(here_)::value_type::first);
    CHECK(found != here_.end(), "stage {} has nothing of microbatch {}", message.stage, message.microbatch);
    std::vector<at::Tensor> tensors = std::move(found->second);
    here_.erase(found);
    return tensors;
  }
  post(*line, place + 1);
  Posted received = std::move(line->receives.at(place));
  line->receives.erase(place);
  for (Work& each : received.works) each.wait();
  post(*line, place + 1 + kPostedAhead);
  let_go(*line, line->channel.arrived[place]);
  return std::move(received.tensors);
}

void Exchange::give(const StageMessage& message, std::vector<at::Tensor> tensors) {
  std::size_t place = 0;
  Line* line = line_of(message, &Channel::out, place);
  if (line == nullptr) {
    here_.emplace_back(message, std::move(tensors));
    return;
  }
  Posted& sent = line->sends.emplace_back();
  for (const at::Tensor& each : tensors)
    sent.works.push_back(isend(line->outgoing, each, line->peer, kMessageTag));
  sent.tensors = std::move(tensors);
}

void Exchange::finish() {
  for (Line& each : lines_) let_go(each, static_cast<int>(each.channel.out.size()));
}

}  // namespace muster
