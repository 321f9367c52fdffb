#include "launcher/io/fleet/container_cleanup.h"

#include <nlohmann/json.hpp>
#include <set>

#include "common/base/process.h"
#include "launcher/core/fleet/container_spec.h"

namespace muster::launcher {

namespace {

using Json = nlohmann::json;

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

// A container that is being removed counts as removed; a network has containers until they are gone.
awaitable<bool> remove_one(DockerEngine& engine, std::string target) {
  constexpr int kTries = 50;
  constexpr Duration kPause = std::chrono::milliseconds(100);
  for (int tries = 0; tries < kTries; ++tries) {
    const auto answer = co_await engine.ask({.verb = "DELETE", .target = target});
    if (!answer || answer->good() || answer->is_missing()) co_return answer && answer->good();
    asio::steady_timer timer(engine.executor(), kPause);
    boost::system::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return false;
}

std::string container_target(const std::string& id) {
  return fmt::format("/containers/{}?force=1&v=1", id);
}

}  // namespace

awaitable<Expected<std::size_t>> remove_labelled(DockerEngine& engine, std::vector<std::string> labels) {
  std::size_t removed = 0;
  const auto left = co_await containers(engine, labels);
  if (!left) co_return std::unexpected(left.error());
  for (const Json& each : *left)
    removed += co_await remove_one(engine, container_target(text_of(each, "Id")));
  const auto nets = co_await networks(engine, labels);
  if (!nets) co_return std::unexpected(nets.error());
  for (const Json& each : *nets) removed += co_await remove_one(engine, "/networks/" + text_of(each, "Id"));
  co_return removed;
}

awaitable<Expected<std::size_t>> remove_abandoned(DockerEngine& engine) {
  std::set<std::string> abandoned;
  const auto all = co_await containers(engine, {kLauncherLabel});
  if (!all) co_return std::unexpected(all.error());
  const auto nets = co_await networks(engine, {kLauncherLabel});
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
