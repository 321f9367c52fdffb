#include "agent/core/mpi/pmi_ranks.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "agent/core/mpi/mpi_fault.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::string_view kDone = "rc=0 msg=success";
constexpr std::size_t kHeadBytes = 24;  // of the line before a part, at most
constexpr char kMore = '+';
constexpr char kLast = '.';

std::string_view word_of(const std::map<std::string, std::string, std::less<>>& words, const char* name) {
  const auto found = words.find(name);
  return found == words.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace

std::string process_mapping(const std::vector<std::int32_t>& rank_counts) {
  std::string text = "(vector";
  for (std::size_t first = 0; first < rank_counts.size();) {
    std::size_t next = first;
    while (next < rank_counts.size() && rank_counts[next] == rank_counts[first]) ++next;
    text += fmt::format(",({},{},{})", first, next - first, rank_counts[first]);
    first = next;
  }
  return text + ")";
}

PmiRanks::PmiRanks(const wire::PrepareAttempt& plan, std::string name)
    : name_(std::move(name)),
      world_size_(plan.world_size),
      node_count_(plan.node_count),
      states_(static_cast<std::size_t>(plan.local_world_size)) {
  values_["PMI_process_mapping"] = process_mapping(plan.rank_counts);
}

// Splits the line into words of the form NAME=VALUE. If the last one is named "value", it can contain blanks
// and equals signs.
PmiRanks::Effects PmiRanks::on_line(LocalRank rank, std::string_view line) {
  Words words;
  for (std::string_view rest = line; !rest.empty();) {
    const std::size_t equals = rest.find('=');
    if (equals == std::string_view::npos) break;
    const std::string name(rest.substr(0, equals));
    rest.remove_prefix(equals + 1);
    const std::size_t end = name == "value" ? rest.size() : std::min(rest.find(' '), rest.size());
    words[name] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  State& state = states_.at(static_cast<std::size_t>(rank.value()));
  if (line.starts_with("mcmd=")) {
    state.spawns = true;
  } else if (state.spawns) {
    if (line != "endcmd") return {};
    state.spawns = false;
    effects_.remarks.push_back(spawn_remark());
    reply(rank, "cmd=spawn_result rc=-1 msg=not_supported");
  } else {
    obey(rank, word_of(words, "cmd"), words);
  }
  return std::exchange(effects_, {});
}

void PmiRanks::obey(LocalRank rank, std::string_view command, const Words& words) {
  State& state = states_.at(static_cast<std::size_t>(rank.value()));
  if (command == "init") {
    state.has_begun = true;
    return reply(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  }
  if (command == "finalize") {
    state.has_finished = true;
    return reply(rank, "cmd=finalize_ack");
  }
  if (command == "abort") {
    state.abort_code = parse_number<int>(word_of(words, "exitcode")).value_or(1);
    state.aborted = abort_text(state.abort_code, "");
    effects_.aborted.push_back(rank);
    effects_.ended.push_back(rank);
    return;
  }
  if (command == "get_maxes") return reply(rank, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
  if (command == "get_appnum") return reply(rank, "cmd=appnum appnum=0");
  if (command == "get_my_kvsname") return reply(rank, "cmd=my_kvsname kvsname=" + name_);
  if (command == "get_universe_size")
    return reply(rank, fmt::format("cmd=universe_size size={}", world_size_));
  if (command == "put") return put(rank, words);
  if (command == "get") return get(rank, words);
  if (command == "barrier_in") return enter_barrier();
  if (command == "publish_name") return ask(rank, wire::MpiVerb::kPublish, words);
  if (command == "lookup_name") return ask(rank, wire::MpiVerb::kLookUp, words);
  if (command == "unpublish_name") return ask(rank, wire::MpiVerb::kUnpublish, words);
  reply(rank, fmt::format("cmd={}_result rc=-1 msg=unknown_command", command));
}

void PmiRanks::put(LocalRank rank, const Words& words) {
  const std::string key(word_of(words, "key"));
  put_bytes_ += key.size() + word_of(words, "value").size();
  if (put_bytes_ > kMostPutBytes) return reply(rank, "cmd=put_result rc=-1 msg=no_room");
  values_[key] = word_of(words, "value");
  if (node_count_ > 1) fresh_ += fmt::format("{}={}\n", key, values_[key]);
  reply(rank, fmt::format("cmd=put_result {}", kDone));
}

void PmiRanks::get(LocalRank rank, const Words& words) {
  const auto found = values_.find(word_of(words, "key"));
  reply(rank, found == values_.end() ? "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                                     : fmt::format("cmd=get_result {} value={}", kDone, found->second));
}

void PmiRanks::enter_barrier() {
  if (++in_barrier_count_ < static_cast<std::int32_t>(states_.size())) return;
  in_barrier_count_ = 0;
  effects_.all_in_barrier = true;
  if (node_count_ <= 1) return leave_barrier();
  gathered_.assign(static_cast<std::size_t>(node_count_), "");
  gather_more();
}

// Sends the next part of this node's new values to the launcher. The launcher puts the parts of all nodes
// into one message. A part begins with a line such as "1024+": the number of bytes that follow, and then "+"
// if the node has more parts, or "." if this is its last one.
void PmiRanks::gather_more() {
  const std::size_t share = wire::kMostMpiBytes / static_cast<std::size_t>(node_count_);
  const std::size_t bytes = std::min(fresh_.size(), std::max(share, kHeadBytes + 1) - kHeadBytes);
  std::string part = fmt::format("{}{}\n{}", bytes, bytes < fresh_.size() ? kMore : kLast,
                                 std::string_view(fresh_).substr(0, bytes));
  fresh_.erase(0, bytes);
  open_[++last_number_] = {.rank = {}, .verb = wire::MpiVerb::kFence};
  effects_.asked.push_back({.verb = wire::MpiVerb::kFence,
                            .number = last_number_,
                            .key = fmt::format("barrier {}", ++fence_),
                            .count = node_count_,
                            .text = wire::Bytes(std::move(part))});
}

// `text` has one part for each node, in the order of the nodes. Appends each part to the node's element of
// `gathered_`. Sets `some_follow` if some node has more parts. Returns false if the text has another format.
bool PmiRanks::take_parts(std::string_view text, bool& some_follow) {
  for (std::string& node : gathered_) {
    const std::size_t end = text.find('\n');
    if (end == 0 || end == std::string_view::npos) return false;
    const auto bytes = parse_number<std::size_t>(text.substr(0, end - 1));
    some_follow |= text[end - 1] == kMore;
    text.remove_prefix(end + 1);
    if (!bytes || *bytes > text.size()) return false;
    node += text.substr(0, *bytes);
    text.remove_prefix(*bytes);
  }
  return text.empty();
}

void PmiRanks::go_on_with_barrier(const wire::MpiTold& told) {
  bool some_follow = false;
  if (!told.ok || !take_parts(told.text.view(), some_follow)) {
    effects_.remarks.emplace_back("cannot gather the data that the ranks exchange to start MPI (PMI)");
    for (std::size_t local = 0; local < states_.size(); ++local)  // the ranks would wait for the data
      effects_.ended.emplace_back(static_cast<std::int32_t>(local));
    return;
  }
  if (some_follow) return gather_more();
  for (const std::string& node : gathered_) {
    for (const std::string_view line : split(node, '\n')) {
      const std::size_t equals = line.find('=');
      if (equals != std::string_view::npos)
        values_[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    }
  }
  gathered_.clear();
  leave_barrier();
}

void PmiRanks::leave_barrier() {
  for (std::size_t local = 0; local < states_.size(); ++local)
    reply(LocalRank(static_cast<std::int32_t>(local)), "cmd=barrier_out");
}

void PmiRanks::ask(LocalRank rank, wire::MpiVerb verb, const Words& words) {
  open_[++last_number_] = {.rank = rank, .verb = verb};
  effects_.asked.push_back({.verb = verb,
                            .number = last_number_,
                            .key = std::string(word_of(words, "service")),
                            .text = wire::Bytes(std::string(word_of(words, "port")))});
}

PmiRanks::Effects PmiRanks::on_told(const wire::MpiTold& told) {
  const auto found = open_.find(told.number);
  if (told.verb != wire::MpiVerb::kAnswer || found == open_.end()) return {};
  const Asked asked = found->second;
  open_.erase(found);
  const std::string end = told.ok ? std::string(kDone) : "rc=-1 msg=refused";
  switch (asked.verb) {
    case wire::MpiVerb::kFence: go_on_with_barrier(told); break;
    case wire::MpiVerb::kPublish: reply(asked.rank, "cmd=publish_result " + end); break;
    case wire::MpiVerb::kUnpublish: reply(asked.rank, "cmd=unpublish_result " + end); break;
    case wire::MpiVerb::kLookUp:
      reply(asked.rank,
            fmt::format("cmd=lookup_result {}{}{}", end, told.ok ? " port=" : "", told.text.view()));
      break;
    case wire::MpiVerb::kFetch:
    case wire::MpiVerb::kWithdraw:
    case wire::MpiVerb::kAnswer: break;
  }
  return std::exchange(effects_, {});
}

std::string PmiRanks::fault_of(LocalRank rank, wire::WorkerExited& exited) const {
  const State& state = states_.at(static_cast<std::size_t>(rank.value()));
  return mpi_fault({.connected = state.has_begun,
                    .finalized = state.has_finished,
                    .aborted = state.aborted,
                    .abort_code = state.abort_code},
                   exited);
}

void PmiRanks::reply(LocalRank rank, std::string line) {
  effects_.replies.push_back({rank, std::move(line)});
}

}  // namespace muster::agent
