#include "runtime/pipeline/exchange.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "runtime/comm/call.h"

namespace muster {

namespace {

// For each other rank, this many calls of irecv() are made ahead. With two, the next message can arrive while
// the stage uses the current message.
constexpr std::size_t kPostedAhead = 2;
// This tag separates these messages from the program's own. NCCL has no tags, so with NCCL the program must
// not send messages at the same time.
constexpr int kMessageTag = 0x6d70;

}  // namespace

Exchange::Exchange(Group group, const ExchangePlan& plan, const std::map<int, StageKinds>& kinds)
    : group_(std::move(group)), kinds_(kinds) {
  for (const Channel& each : plan.channels) {
    lines_.push_back({.channel = each, .peer = group_.ranks()[static_cast<std::size_t>(each.peer)]});
    connect_for_messages(group_, each.peer);
  }
  for (Line& each : lines_) post(each, kPostedAhead);
}

std::vector<at::Tensor> Exchange::buffers_for(const StageMessage& message) const {
  const StageKinds& kinds = kinds_.at(message.stage);
  const bool forward = message.op == Op::kForward;
  const at::TensorOptions here = at::device(group_.device());
  std::vector<at::Tensor> buffers;
  for (const TensorKind& each : forward ? kinds.inputs : kinds.outputs) {
    if (!forward && !each.needs_grad) continue;
    buffers.push_back(at::empty(each.shape, here.dtype(each.type)));
  }
  return buffers;
}

void Exchange::post(Line& line, std::size_t until) {
  for (; line.posted < std::min(until, line.channel.in.size()); ++line.posted) {
    Posted& next = line.receives[line.posted];
    next.tensors = buffers_for(line.channel.in[line.posted]);
    for (const at::Tensor& each : next.tensors)
      next.works.push_back(irecv(group_, each, line.peer, kMessageTag));
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
  for (const at::Tensor& each : tensors) sent.works.push_back(isend(group_, each, line->peer, kMessageTag));
  sent.tensors = std::move(tensors);
}

void Exchange::finish() {
  for (Line& each : lines_) let_go(each, static_cast<int>(each.channel.out.size()));
}

}  // namespace muster
