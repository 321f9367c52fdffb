#include "launcher/io/view/enquiries.h"

#include "common/wire/json.h"

namespace muster::launcher {

namespace {

using nlohmann::json;

// If nobody requests the usage of the ranks for this long, agents stop measuring it.
constexpr Duration kUsageLinger = std::chrono::seconds(5);

std::string line_of(const json& answer) {
  // Workers' text may not be UTF-8.
  return answer.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

void end_with(const std::shared_ptr<Caller>& caller, const json& answer) {
  caller->send(line_of(answer));
  caller->finish();
}

}  // namespace

Enquiries::Enquiries(asio::io_context& context, net::Time& time, Answers answers)
    : context_(context),
      time_(time),
      answers_(std::move(answers)),
      tasks_(context.get_executor()),
      alarm_(time.make_alarm([this] { end_dumps(); })) {}

Status Enquiries::open(const std::string& directory) {
  auto socket = ControlSocket::open(
      context_.get_executor(), tasks_, directory,
      [this](const std::string& line, const std::shared_ptr<Caller>& caller) { answer(line, caller); });
  if (!socket) return std::unexpected(socket.error());
  socket_ = std::move(*socket);
  return {};
}

void Enquiries::answer(const std::string& line, const std::shared_ptr<Caller>& caller) {
  std::string command;
  bool now = false;
  std::string hosts;
  try {
    const json request = parse_shallow_json(line);
    command = request.at("command");
    now = request.value("now", false);
    hosts = request.value("hosts", "");
  } catch (const json::exception& error) {
    return end_with(caller, {{"error", error.what()}});
  }
  if (command == "status") {
    caller->send(status_as_line(answers_.status()));
    caller->finish();
  } else if (command == "top") {
    answer_top(caller);
  } else if (command == "nodes") {
    caller->send(node_list_as_line(answers_.nodes()));
    caller->finish();
  } else if (command == "add_nodes") {
    const auto told = answers_.add_nodes(hosts, now);
    end_with(caller, told ? json{{"told", *told}} : json{{"error", told.error().message()}});
  } else if (command == "cancel") {
    end_with(caller, {{"cancelling", true}});
    answers_.cancel(now);
  } else if (command == "dump") {
    start_dump(caller);
  } else {
    end_with(caller, {{"error", "unknown command: give status, top, nodes, add_nodes, cancel or dump"}});
  }
}

void Enquiries::answer_top(const std::shared_ptr<Caller>& caller) {
  if (!wants_usage()) usage_.clear();
  usage_until_ = time_.now() + kUsageLinger;
  JobStatus status = answers_.status();
  for (RankStatus& rank : status.ranks) {
    const auto found = usage_.find(rank.rank);
    if (found != usage_.end() && rank.pid != 0) rank.usage = found->second;
  }
  caller->send(status_as_line(status));
  caller->finish();
}

void Enquiries::hear(const std::vector<wire::RankUsage>& usage) {
  for (const wire::RankUsage& each : usage) usage_[each.rank] = each;
}

void Enquiries::start_dump(const std::shared_ptr<Caller>& caller) {
  const std::vector<Rank> ranks = answers_.ask_for_stacks();
  if (ranks.empty()) return end_with(caller, {{"error", "no worker is running"}});
  dumps_.push_back({caller, {ranks.begin(), ranks.end()}, time_.now() + kStacksLimit});
  alarm_->set(dumps_.front().deadline);
}

void Enquiries::hear(const wire::WorkerStacks& stacks) {
  for (Dump& dump : dumps_) {
    if (dump.missing.erase(stacks.rank) > 0)
      dump.caller->send(line_of({{"rank", stacks.rank.value()}, {"text", stacks.text}}));
  }
  end_dumps();
}

// Ends each dump that is complete, or whose deadline has passed.
void Enquiries::end_dumps() {
  std::erase_if(dumps_, [this](const Dump& dump) {
    if (!dump.missing.empty() && dump.deadline > time_.now()) return false;
    json missing = json::array();
    for (const Rank rank : dump.missing) missing.push_back(rank.value());
    end_with(dump.caller, {{"missing", std::move(missing)}});
    return true;
  });
  alarm_->set(dumps_.empty() ? std::nullopt : std::optional(dumps_.front().deadline));
}

}  // namespace muster::launcher
