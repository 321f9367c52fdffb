#include "launcher/io/fleet/container_cleanup.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <map>
#include <memory>

#include "common/base/process.h"
#include "launcher/core/fleet/container_spec.h"
#include "launcher/core/text/foreign_json.h"
#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

namespace {

using Remover = awaitable<bool> (*)(DockerEngine&, std::string id, TimePoint deadline);
using namespace asio::experimental::awaitable_operators;

constexpr Duration kRemovePause = std::chrono::milliseconds(50);
constexpr Duration kListLimit = std::chrono::seconds(30);
constexpr Duration kAbandonedLimit = std::chrono::seconds(5);  // for one launcher's objects
constexpr Duration kLookPause = std::chrono::milliseconds(200);

awaitable<Expected<std::vector<Json>>> list(DockerEngine& engine, std::string target, TimePoint deadline) {
  const auto answer =
      co_await engine.ask({.verb = "GET", .target = std::move(target)}, deadline - Clock::now());
  if (!answer) co_return std::unexpected(answer.error());
  const Json json = parse_json(answer->body);
  if (!json.is_array()) co_return failure(ErrorCode::kUnavailable, "{}", answer->message());
  co_return std::vector<Json>(json.begin(), json.end());
}

awaitable<Expected<std::vector<Json>>> containers(DockerEngine& engine, std::vector<std::string> labels,
                                                  TimePoint deadline) {
  co_return co_await list(engine, "/containers/json?all=1&filters=" + label_filter(labels), deadline);
}

awaitable<Expected<std::vector<Json>>> networks(DockerEngine& engine, std::vector<std::string> labels,
                                                TimePoint deadline) {
  co_return co_await list(engine, "/networks?filters=" + label_filter(labels), deadline);
}

// While a container on a network runs, the engine refuses to remove the network. So this tries again.
awaitable<bool> remove_network(DockerEngine& engine, std::string id, TimePoint deadline) {
  while (Clock::now() < deadline) {
    const auto answer =
        co_await engine.ask({.verb = "DELETE", .target = "/networks/" + id}, deadline - Clock::now());
    if (!answer) co_return false;
    if (answer->good() || answer->is_missing()) co_return true;
    co_await pause_for(engine.executor(), kRemovePause);
  }
  co_return false;
}

// Removes the objects whose ids have an index in [from, to), all at the same time. Returns true if all of
// them are gone.
awaitable<bool> remove_some(DockerEngine& engine, Remover remove,
                            std::shared_ptr<const std::vector<std::string>> ids, std::size_t from,
                            std::size_t to, TimePoint deadline) {
  if (from == to) co_return true;
  if (to - from == 1) co_return co_await remove(engine, ids->at(from), deadline);
  const std::size_t middle = from + (to - from) / 2;
  const auto [left, right] = co_await (remove_some(engine, remove, ids, from, middle, deadline) &&
                                       remove_some(engine, remove, ids, middle, to, deadline));
  co_return left&& right;
}

awaitable<bool> remove_all(DockerEngine& engine, Remover remove, const std::vector<Json>& objects,
                           TimePoint deadline) {
  auto ids = std::make_shared<std::vector<std::string>>();
  for (const Json& each : objects) ids->push_back(text_in(each, "Id"));
  return remove_some(engine, remove, ids, 0, ids->size(), deadline);
}

}  // namespace

awaitable<Expected<std::vector<Json>>> running_containers(DockerEngine& engine,
                                                          std::vector<std::string> labels,
                                                          TimePoint deadline) {
  co_return co_await list(engine, "/containers/json?filters=" + label_filter(labels), deadline);
}

// If the engine itself is removing the container, it refuses the request. So this tries again.
awaitable<bool> remove_container(DockerEngine& engine, std::string container, TimePoint deadline) {
  constexpr Duration kLimit = std::chrono::milliseconds(500);
  while (Clock::now() < deadline) {
    const auto answer = co_await engine.ask(
        {.verb = "DELETE", .target = fmt::format("/containers/{}?force=1&v=1", container)},
        deadline - Clock::now());
    if (!answer) co_return false;
    if (answer->good() || answer->is_missing()) co_return true;
    const auto removed = co_await engine.ask(
        {.verb = "POST", .target = fmt::format("/containers/{}/wait?condition=removed", container)}, kLimit);
    if (removed && !removed->good() && !removed->is_missing())
      co_await pause_for(engine.executor(), kRemovePause);
  }
  co_return false;
}

// The engine takes as long to remove a network as to remove a container. So this removes containers and
// networks at the same time. The engine can remove a network when the network's containers have ended, even
// if they still exist.
awaitable<Expected<std::size_t>> remove_labelled(DockerEngine& engine, std::vector<std::string> labels,
                                                 TimePoint deadline) {
  const auto [left, nets] =
      co_await (containers(engine, labels, deadline) && networks(engine, labels, deadline));
  if (!left) co_return std::unexpected(left.error());
  if (!nets) co_return std::unexpected(nets.error());
  const auto [some, others] = co_await (remove_all(engine, remove_container, *left, deadline) &&
                                        remove_all(engine, remove_network, *nets, deadline));
  if (!some || !others)
    co_return failure(ErrorCode::kUnavailable, "Docker left some containers or networks behind");
  co_return left->size() + nets->size();
}

// Only an answer of the engine ends the wait. While the engine is silent, containers with the label may still
// be running.
awaitable<void> wait_until_ended(DockerEngine& engine, std::string label, TimePoint deadline) {
  while (Clock::now() < deadline) {
    const auto running = co_await running_containers(engine, {label}, deadline);
    if (running && running->empty()) co_return;
    co_await pause_for(engine.executor(), kLookPause);
  }
}

awaitable<Expected<Abandoned>> remove_abandoned(DockerEngine& engine) {
  const TimePoint deadline = Clock::now() + kListLimit;
  std::map<std::string, std::string> jobs;  // by their launcher's label
  const auto [all, nets] = co_await (containers(engine, {kLauncherLabel}, deadline) &&
                                     networks(engine, {kLauncherLabel}, deadline));
  if (!all) co_return std::unexpected(all.error());
  if (!nets) co_return std::unexpected(nets.error());
  for (const auto* objects : {&*all, &*nets}) {
    for (const Json& each : *objects) {
      const Json& labels = member(each, "Labels");
      const std::string label = text_in(labels, kLauncherLabel);
      const auto launcher = parse_launcher_label(label);
      if (launcher && is_alive(*launcher) == false) jobs[label] = text_in(labels, kJobLabel);
    }
  }
  Abandoned abandoned;
  for (const auto& [label, job] : jobs) {
    const auto count = co_await remove_labelled(engine, {fmt::format("{}={}", kLauncherLabel, label)},
                                                Clock::now() + kAbandonedLimit);
    abandoned.removed += count.value_or(0);
    if (!count) abandoned.left.push_back(job);
  }
  co_return abandoned;
}

}  // namespace muster::launcher
