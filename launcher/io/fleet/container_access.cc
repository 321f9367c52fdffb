#include "launcher/io/fleet/container_access.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/tls.h"
#include "launcher/io/fleet/container_cleanup.h"

namespace muster::launcher {

namespace {

using Json = nlohmann::json;

constexpr Duration kRetryPause = std::chrono::milliseconds(200);
constexpr Duration kMakingPause = std::chrono::milliseconds(5);
constexpr Duration kRoomLimit = std::chrono::seconds(10);  // for an older container to be removed

awaitable<void> pause(const asio::any_io_executor& executor, Duration time) {
  asio::steady_timer timer(executor, time);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

std::string clean(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

ContainerSurroundings look_around(const std::string& agent_program) {
  const std::string agent = clean(agent_program);
  ContainerSurroundings here;
  here.user = fmt::format("{}:{}", getuid(), getgid());
  here.programs = {
      {agent, kAgentInContainer, true},
      {clean(net::Tls::file_beside(agent)), clean(net::Tls::file_beside(kAgentInContainer)), true},
      {std::filesystem::path(agent).replace_filename("launch").string(),
       std::filesystem::path(kAgentInContainer).replace_filename("launch").string(), true}};
  here.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  here.launcher = launcher_label(own_identity());
  return here;
}

Error refused(const std::string& message) {
  const std::string todo = container_advice(message);
  return Error(ErrorCode::kInvalidArgument, todo.empty() ? message : fmt::format("{} ({})", message, todo));
}

std::string text_at(const Json& json, std::string_view pointer) {
  const Json::json_pointer place{std::string(pointer)};
  return json.contains(place) && json[place].is_string() ? json[place].get<std::string>() : "";
}

}  // namespace

ContainerAccess::ContainerAccess(const asio::any_io_executor& executor, const Plan& plan,
                                 const std::string& agent_program)
    : executor_(executor),
      plan_(plan),
      here_(look_around(agent_program)),
      socket_(docker_socket(std::getenv("DOCKER_HOST"))),
      engine_(executor, socket_.value_or("")),
      makings_(executor) {}

std::string ContainerAccess::job_label() const {
  return fmt::format("{}={}", kJobLabel, plan_.job.job_id);
}

awaitable<Status> ContainerAccess::prepare() {
  if (!socket_) co_return std::unexpected(socket_.error());
  if (Status guarded = guardian_.start(*socket_, job_label()); !guarded) co_return guarded;
  if (plan_.remote.container.network.empty()) {
    const auto made = co_await make(
        {.verb = "POST", .target = "/networks/create", .body = network_body(plan_, here_.launcher)});
    if (!made) co_return std::unexpected(made.error());
    if (!made->good()) co_return std::unexpected(refused("no network can be made: " + made->message()));
  }
  asio::co_spawn(executor_, watch_memory(), asio::detached);
  co_return Status{};
}

struct ContainerAccess::Making {
  explicit Making(const asio::any_io_executor& executor) : over(executor, TimePoint::max()) {}
  std::optional<Expected<DockerEngine::Answer>> answer;
  asio::steady_timer over;
};

// The answer is heard also when nobody waits for it any more: what the engine has been asked to make comes in
// any case, and finish() has to find it.
awaitable<Expected<DockerEngine::Answer>> ContainerAccess::make(DockerEngine::Request request) {
  if (finishing_) co_return failure(ErrorCode::kUnavailable, "the start was given up");
  const auto making = std::make_shared<Making>(executor_);
  makings_.spawn(ask_until_there(std::move(request), making));
  boost::system::error_code ignored;
  while (!making->answer)
    co_await making->over.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return *making->answer;
}

// An engine that is being restarted is waited for.
awaitable<void> ContainerAccess::ask_until_there(DockerEngine::Request request,
                                                 std::shared_ptr<Making> making) {
  const TimePoint deadline = Clock::now() + plan_.remote.connect_timeout;
  for (;;) {
    auto answer = co_await engine_.ask(request);
    const bool gone = !answer && answer.error().code() == ErrorCode::kUnavailable;
    if (!gone || finishing_ || Clock::now() >= deadline) {
      making->answer = std::move(answer);
      break;
    }
    co_await pause(executor_, kRetryPause);
  }
  making->over.cancel();
}

// The node's earlier container may still be there.
awaitable<Status> ContainerAccess::make_room(const std::string& name) {
  const auto found =
      co_await engine_.ask({.verb = "GET", .target = fmt::format("/containers/{}/json", name)});
  if (!found) co_return std::unexpected(found.error());
  if (!found->good()) co_return Status{};
  const Json json = Json::parse(found->body, nullptr, false);
  const std::string label = fmt::format("/Config/Labels/{}", kJobLabel);
  if (json.is_discarded() || text_at(json, label) != plan_.job.job_id)
    co_return std::unexpected(Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the name {} is another container's: `docker rm -f {}` if nobody needs it", name, name)));
  (void)co_await engine_.ask({.verb = "DELETE", .target = fmt::format("/containers/{}?force=1&v=1", name)});
  co_return Status{};
}

awaitable<Expected<std::string>> ContainerAccess::make_container(AgentId agent, const Words& arguments) {
  const std::string& name = container_name(plan_, agent.node);
  const DockerEngine::Request request{.verb = "POST",
                                      .target = "/containers/create?name=" + percent_encoded(name),
                                      .body = container_body(plan_, agent, arguments, here_)};
  const TimePoint deadline = Clock::now() + kRoomLimit;
  for (;;) {
    const auto made = co_await make(request);
    if (!made) co_return std::unexpected(made.error());
    if (made->good()) {
      const std::string id = text_at(Json::parse(made->body, nullptr, false), "/Id");
      if (!id.empty()) co_return id;
    }
    if (!made->is_conflict() || Clock::now() >= deadline) co_return std::unexpected(refused(made->message()));
    if (const Status room = co_await make_room(name); !room) co_return std::unexpected(room.error());
    co_await pause(executor_, kRetryPause);
  }
}

awaitable<HostAccess::Shell> ContainerAccess::start_agent(AgentId agent, Words arguments) {
  const auto id = co_await make_container(agent, arguments);
  if (!id) co_return std::unexpected(id.error());
  auto shell = co_await ContainerShell::start(
      engine_, *id, fmt::format("{}/agent.node{}.log", plan_.job.log_directory, agent.node));
  if (shell) {
    std::erase_if(shells_, [](const auto& each) { return each.second.expired(); });
    shells_[*id] = *shell;
    co_return *std::move(shell);
  }
  (void)co_await engine_.ask({.verb = "DELETE", .target = fmt::format("/containers/{}?force=1&v=1", *id)});
  const Error& why = shell.error();
  co_return std::unexpected(why.code() == ErrorCode::kInvalidArgument ? refused(why.message()) : why);
}

// The image is there before the job starts, and the agent is mounted.
awaitable<Expected<HostAccess::Errand>> ContainerAccess::bring(NodeId, HostStart::Missing) {
  co_return failure(ErrorCode::kUnavailable, "the image {} is gone", plan_.remote.container.image);
}

// A container that is paused is killed like any other.
awaitable<bool> ContainerAccess::kill_agent(AgentId agent, AgentGreeting, TimePoint deadline) {
  const auto killed = co_await engine_.ask(
      {.verb = "POST",
       .target = fmt::format("/containers/{}/kill?signal=KILL", container_name(plan_, agent.node))},
      deadline - Clock::now());
  co_return killed.has_value();
}

// What has ended in a container has no processes left, whether or not the engine has removed it yet.
awaitable<std::optional<std::vector<Leftover>>> ContainerAccess::sweep(AgentId below, bool kill, TimePoint) {
  const std::string filter = label_filter({job_label(), fmt::format("{}={}", kNodeLabel, below.node)});
  const auto answer = co_await engine_.ask({.verb = "GET", .target = "/containers/json?filters=" + filter});
  if (!answer || !answer->good()) co_return std::nullopt;
  std::vector<Leftover> left;
  for (const Json& each : Json::parse(answer->body, nullptr, false)) {
    const std::string id = text_at(each, "/Id");
    const auto incarnation =
        parse_number<std::uint32_t>(text_at(each, fmt::format("/Labels/{}", kIncarnationLabel)));
    const bool older =
        below.incarnation == Incarnation() || (incarnation && Incarnation(*incarnation) < below.incarnation);
    if (id.empty() || !older) continue;
    if (kill) {
      const auto removed =
          co_await engine_.ask({.verb = "DELETE", .target = fmt::format("/containers/{}?force=1&v=1", id)});
      if (removed && (removed->good() || removed->is_missing())) continue;
    }
    left.push_back(
        {.pid = 1, .name = "container " + id.substr(0, 12), .uid = 0, .error = 0, .node = below.node});
  }
  co_return left;
}

awaitable<void> ContainerAccess::finish() {
  if (!socket_) co_return;
  finishing_ = true;
  while (!makings_.empty()) co_await pause(executor_, kMakingPause);
  const auto removed = co_await remove_labelled(engine_, {job_label()});
  if (removed) guardian_.dismiss();
}

awaitable<void> ContainerAccess::watch_memory() {
  const std::string filter =
      percent_encoded(Json({{"type", {"container"}}, {"event", {"oom"}}, {"label", {job_label()}}}).dump());
  for (;;) {
    (void)co_await engine_.read_lines({.verb = "GET", .target = "/events?filters=" + filter},
                                      [this](std::string_view event) { hear_of_memory(event); });
    co_await pause(executor_, std::chrono::seconds(1));  // the engine went away
  }
}

void ContainerAccess::hear_of_memory(std::string_view event) {
  const Json json = Json::parse(event, nullptr, false);
  if (json.is_discarded()) return;
  const auto found = shells_.find(text_at(json, "/Actor/ID"));
  if (found == shells_.end()) return;
  if (const auto shell = found->second.lock()) shell->ran_out_of_memory();
}

}  // namespace muster::launcher
