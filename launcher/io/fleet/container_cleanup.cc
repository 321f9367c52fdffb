#include "launcher/io/fleet/container_cleanup.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/process.h"
#include "launcher/core/fleet/container_spec.h"

namespace muster::launcher {

namespace {

using Json = nlohmann::json;
using Remover = awaitable<bool> (*)(DockerEngine&, std::string id);
using namespace asio::experimental::awaitable_operators;

// "Id" or another string of an object that the engine has sent; empty if there is none.
std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

awaitable<Expected<std::vector<Json>>> list(DockerEngine& engine, std::string target) {
  const auto answer = co_await engine.ask({.verb = "GET", .target = std::move(target)});
  if (!answer) co_return std::unexpected(answer.error());
  const Json json = Json::parse(answer->body, nullptr, false);
  std::vector<Json> objects;
  if (!json.is_array()) co_return objects;
  for (const Json& each : json) {
    if (each.is_object()) objects.push_back(each);
  }
  co_return objects;
}

awaitable<Expected<std::vector<Json>>> containers(DockerEngine& engine, std::vector<std::string> labels) {
  co_return co_await list(engine, "/containers/json?all=1&filters=" + label_filter(labels));
}

awaitable<Expected<std::vector<Json>>> networks(DockerEngine& engine, std::vector<std::string> labels) {
  co_return co_await list(engine, "/networks?filters=" + label_filter(labels));
}

awaitable<void> pause(DockerEngine& engine) {
  constexpr Duration kPause = std::chrono::milliseconds(100);
  asio::steady_timer timer(engine.executor(), kPause);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// A container that the engine removes by itself is waited for, and counts as removed.
awaitable<bool> remove_container(DockerEngine& engine, std::string id) {
  constexpr int kTries = 50;
  constexpr Duration kLimit = std::chrono::milliseconds(500);
  bool there = false;
  for (int tries = 0; tries < kTries; ++tries) {
    const auto answer =
        co_await engine.ask({.verb = "DELETE", .target = fmt::format("/containers/{}?force=1&v=1", id)});
    if (!answer || answer->good() || answer->is_missing()) co_return answer && (answer->good() || there);
    there = true;
    const auto removed = co_await engine.ask(
        {.verb = "POST", .target = fmt::format("/containers/{}/wait?condition=removed", id)}, kLimit);
    if (removed && !removed->good() && !removed->is_missing()) co_await pause(engine);
  }
  co_return false;
}

// A network has containers until they have ended.
awaitable<bool> remove_network(DockerEngine& engine, std::string id) {
  constexpr int kTries = 50;
  for (int tries = 0; tries < kTries; ++tries) {
    const auto answer = co_await engine.ask({.verb = "DELETE", .target = "/networks/" + id});
    if (!answer || answer->good() || answer->is_missing()) co_return answer && answer->good();
    co_await pause(engine);
  }
  co_return false;
}

// How many of [from, to) were removed; all at once.
awaitable<std::size_t> remove_some(DockerEngine& engine, Remover remove,
                                   std::shared_ptr<const std::vector<std::string>> ids, std::size_t from,
                                   std::size_t to) {
  if (from == to) co_return 0;
  if (to - from == 1) co_return co_await remove(engine, ids->at(from));
  const std::size_t middle = from + (to - from) / 2;
  const auto [left, right] = co_await (remove_some(engine, remove, ids, from, middle) &&
                                       remove_some(engine, remove, ids, middle, to));
  co_return left + right;
}

awaitable<std::size_t> remove_all(DockerEngine& engine, Remover remove, const std::vector<Json>& objects) {
  auto ids = std::make_shared<std::vector<std::string>>();
  for (const Json& each : objects) ids->push_back(text_of(each, "Id"));
  return remove_some(engine, remove, ids, 0, ids->size());
}

}  // namespace

awaitable<Expected<std::size_t>> remove_labelled(DockerEngine& engine, std::vector<std::string> labels) {
  const auto [left, nets] = co_await (containers(engine, labels) && networks(engine, labels));
  if (!left) co_return std::unexpected(left.error());
  if (!nets) co_return std::unexpected(nets.error());
  // The engine takes as long for a network as for a container, and a network is free when its containers have
  // ended, which is before they are removed.
  const auto [some, others] =
      co_await (remove_all(engine, remove_container, *left) && remove_all(engine, remove_network, *nets));
  co_return some + others;
}

awaitable<Expected<std::size_t>> remove_abandoned(DockerEngine& engine) {
  std::set<std::string> abandoned;
  const auto [all, nets] =
      co_await (containers(engine, {kLauncherLabel}) && networks(engine, {kLauncherLabel}));
  if (!all) co_return std::unexpected(all.error());
  if (!nets) co_return std::unexpected(nets.error());
  for (const auto* objects : {&*all, &*nets}) {
    for (const Json& each : *objects) {
      const auto labels = each.find("Labels");
      if (labels == each.end() || !labels->is_object()) continue;
      const std::string label = text_of(*labels, kLauncherLabel);
      const auto launcher = parse_launcher_label(label);
      if (launcher && is_alive(*launcher) == false) abandoned.insert(label);
    }
  }
  std::size_t removed = 0;
  for (const std::string& label : abandoned) {
    const auto count = co_await remove_labelled(engine, {fmt::format("{}={}", kLauncherLabel, label)});
    if (!count) co_return std::unexpected(count.error());
    removed += *count;
  }
  co_return removed;
}

}  // namespace muster::launcher
