#include "launcher/io/fleet/container_access.h"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/tls.h"
#include "launcher/core/text/foreign_json.h"
#include "launcher/io/fleet/container_cleanup.h"
#include "launcher/io/fleet/delivery.h"
#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

namespace {

constexpr Duration kRetryPause = std::chrono::milliseconds(200);
constexpr Duration kMakingPause = std::chrono::milliseconds(5);
constexpr Duration kEngineLimit = std::chrono::seconds(5);  // a busy engine takes seconds
constexpr Duration kFinishLimit = std::chrono::seconds(8);
constexpr Duration kWriteOutLimit = std::chrono::seconds(45);  // agents write checkpoints in memory to disk
constexpr Duration kRoomLimit = std::chrono::seconds(10);      // to remove an older container

// Mounts the PMIx module into each container. The module needs the libpmix of the image. In an image without
// that library, nothing loads the module.
void add_pmix(const std::string& agent, ContainerSurroundings& here) {
  std::error_code error;
  if (std::filesystem::exists(pmix_beside(agent), error))
    here.programs.push_back({pmix_beside(agent), pmix_beside(kAgentInContainer), true});
}

ContainerSurroundings look_around(const std::string& agent, wire::Mpi mpi) {
  ContainerSurroundings here;
  here.user = fmt::format("{}:{}", getuid(), getgid());
  here.programs = {{agent, kAgentInContainer, true},
                   {net::Tls::file_beside(agent), net::Tls::file_beside(kAgentInContainer), true},
                   {std::filesystem::path(agent).replace_filename("launch").string(),
                    std::filesystem::path(kAgentInContainer).replace_filename("launch").string(), true}};
  if (mpi == wire::Mpi::kAuto || mpi == wire::Mpi::kPmix) add_pmix(agent, here);
  here.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  here.launcher = launcher_label(own_identity());
  return here;
}

Error refused(const std::string& message) {
  return Error(ErrorCode::kInvalidArgument, with_container_advice(message));
}

}  // namespace

ContainerAccess::ContainerAccess(const asio::any_io_executor& executor, const Plan& plan,
                                 const std::string& agent_program)
    : executor_(executor),
      plan_(plan),
      here_(look_around(agent_program, plan.job.mpi)),
      socket_(docker_socket(std::getenv("DOCKER_HOST"))),
      engine_(executor, socket_.value_or("")),
      makings_(executor) {}

std::string ContainerAccess::job_label() const {
  return fmt::format("{}={}", kJobLabel, plan_.job.job_id);
}

Duration agents_stay(const Plan& plan) {
  const wire::JobLimits& limits = plan.job.limits;
  return limits.controller_grace + limits.grace +
         (limits.memory_tier_bytes > 0 ? kWriteOutLimit : Duration::zero());
}

awaitable<Status> ContainerAccess::prepare() {
  if (!socket_) co_return std::unexpected(socket_.error());
  if (Status guarded = guardian_.start(*socket_, job_label(), agents_stay(plan_)); !guarded)
    co_return guarded;
  const bool alone = plan_.hosts.size() == 1 && plan_.remote.container.network.empty();
  if (alone) {
    const auto bridge = co_await engine_.ask({.verb = "GET", .target = "/networks/bridge"});
    here_.has_bridge = bridge && bridge->good();
  }
  if (network_of(plan_, here_) == network_name(plan_))
    network_ =
        make({.verb = "POST", .target = "/networks/create", .body = network_body(plan_, here_.launcher)});
  co_return Status{};
}

// Waits for the network. The containers are created at the same time as the network, but start after it.
awaitable<Status> ContainerAccess::network_is_there() {
  if (!network_) co_return Status{};
  const auto made = co_await answer_to(network_);
  if (!made) co_return std::unexpected(made.error());
  if (!made->good())
    co_return failure(ErrorCode::kInvalidArgument, "cannot create a network: {}", made->message());
  co_return Status{};
}

struct ContainerAccess::Making {
  explicit Making(const asio::any_io_executor& executor) : over(executor, TimePoint::max()) {}
  std::optional<Expected<DockerEngine::Answer>> answer;
  asio::steady_timer over;
};

// The engine creates the object even if the caller stops waiting, and finish() must find it. So the request
// runs as a task of its own, and continues in this case.
std::shared_ptr<ContainerAccess::Making> ContainerAccess::make(DockerEngine::Request request) {
  auto making = std::make_shared<Making>(executor_);
  if (finishing_) {
    making->answer = failure(ErrorCode::kUnavailable, "the launcher gave up the start");
  } else {
    makings_.spawn(ask_until_there(std::move(request), making));
  }
  return making;
}

awaitable<Expected<DockerEngine::Answer>> ContainerAccess::answer_to(std::shared_ptr<Making> making) {
  boost::system::error_code ignored;
  while (!making->answer)
    co_await making->over.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return *making->answer;
}

// Asks the engine to create an object. While the engine is being restarted, this tries again.
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
    co_await pause_for(executor_, kRetryPause);
  }
  making->over.cancel();
}

// Removes the node's earlier container, which may still have the name.
awaitable<Status> ContainerAccess::make_room(AgentId agent, const std::string& name) {
  const auto found =
      co_await engine_.ask({.verb = "GET", .target = fmt::format("/containers/{}/json", name)});
  if (!found) co_return std::unexpected(found.error());
  if (!found->good()) co_return Status{};
  const Json json = parse_json(found->body);
  const Json& labels = member(member(json, "Config"), "Labels");
  if (text_in(labels, kJobLabel) != plan_.job.job_id && text_in(labels, kStaysLabel) != plan_.job.job_id)
    co_return failure(ErrorCode::kInvalidArgument,
                      "another container has the name {}: `docker rm -f {}` if nobody needs it", name, name);
  const auto incarnation = parse_number<std::uint32_t>(text_in(labels, kIncarnationLabel));
  if (incarnation && Incarnation(*incarnation) > agent.incarnation)
    co_return failure(ErrorCode::kUnavailable, "the node already has a newer container");
  (void)co_await remove_container(engine_, text_in(json, "Id"), Clock::now() + kRoomLimit);
  co_return Status{};
}

awaitable<Expected<std::string>> ContainerAccess::make_container(AgentId agent, const Words& arguments) {
  const std::string& name = container_name(plan_, agent.node);
  const DockerEngine::Request request{.verb = "POST",
                                      .target = "/containers/create?name=" + percent_encoded(name),
                                      .body = container_body(plan_, agent, arguments, here_)};
  const TimePoint deadline = Clock::now() + kRoomLimit;
  for (;;) {
    const auto made = co_await answer_to(make(request));
    if (!made) co_return std::unexpected(made.error());
    const std::string id = made->good() ? text_in(parse_json(made->body), "Id") : "";
    if (!id.empty()) co_return id;
    if (!made->is_conflict() || Clock::now() >= deadline) co_return std::unexpected(refused(made->message()));
    if (const Status room = co_await make_room(agent, name); !room) co_return std::unexpected(room.error());
    co_await pause_for(executor_, kRetryPause);
  }
}

awaitable<HostAccess::Shell> ContainerAccess::start_agent(AgentId agent, Words arguments) {
  const auto id = co_await make_container(agent, arguments);
  if (!id) co_return std::unexpected(id.error());
  Expected<std::shared_ptr<ContainerShell>> shell;
  if (const Status network = co_await network_is_there(); !network) {
    shell = std::unexpected(network.error());
  } else {
    shell = co_await ContainerShell::start(engine_, *id, plan_.agent_log(agent.node));
  }
  if (shell) {
    std::erase_if(shells_, [](const auto& each) { return each.second.expired(); });
    shells_[agent] = *shell;
    co_return *std::move(shell);
  }
  (void)co_await remove_container(engine_, *id, Clock::now() + kRoomLimit);
  const Error& why = shell.error();
  co_return std::unexpected(why.code() == ErrorCode::kInvalidArgument ? refused(why.message()) : why);
}

void ContainerAccess::adopt(AgentId agent, const std::shared_ptr<HostShell>& shell) {
  shells_[agent] = std::dynamic_pointer_cast<ContainerShell>(shell);
}

// The launcher pulls the image before the job starts, and mounts the agent. So if anything is missing now, it
// is the image: somebody has deleted it after the launcher pulled it.
awaitable<Expected<HostAccess::Errand>> ContainerAccess::bring(NodeId, HostStart::Missing) {
  co_return failure(ErrorCode::kUnavailable, "the image {} is gone", plan_.remote.container.image);
}

// Kills the container of the agent, even if it is paused. Waits for its end, because before that the shell
// does not know whether the container has run out of memory.
awaitable<bool> ContainerAccess::kill_agent(AgentId agent, AgentGreeting) {
  const TimePoint deadline = Clock::now() + kEngineLimit;
  const auto found = shells_.find(agent);
  const auto shell = found == shells_.end() ? nullptr : found->second.lock();
  if (!shell) co_return true;
  shell->seems_to_end();
  const auto killed = co_await engine_.ask(DockerEngine::Request::kill(shell->id()), deadline - Clock::now());
  if (killed) (void)co_await shell->ended(deadline);
  co_return killed.has_value();
}

// If a container has ended, it has no processes left, even if the engine has not removed it yet. So only
// running containers matter.
awaitable<std::optional<std::vector<Leftover>>> ContainerAccess::sweep(AgentId below, bool kill) {
  const TimePoint deadline = Clock::now() + kEngineLimit;
  const std::vector<std::string> labels = {job_label(), fmt::format("{}={}", kNodeLabel, below.node)};
  const auto all = co_await running_containers(engine_, labels, deadline);
  if (!all) co_return std::nullopt;
  std::set<std::string> ids;
  const auto is_older = [below](Incarnation incarnation) {
    return below.incarnation == Incarnation() || incarnation < below.incarnation;
  };
  for (const Json& each : *all) {
    const auto incarnation = parse_number<std::uint32_t>(text_in(member(each, "Labels"), kIncarnationLabel));
    if (is_older(Incarnation(incarnation.value_or(UINT32_MAX)))) ids.insert(text_in(each, "Id"));
  }
  for (const auto& [agent, weak] : shells_) {  // a container that stays does not have the job's label
    const auto shell = weak.lock();
    if (agent.node == below.node && is_older(agent.incarnation) && shell && !shell->has_ended())
      ids.insert(shell->id());
  }
  std::vector<Leftover> left;
  for (const std::string& id : ids) {
    const bool gone = kill && co_await remove_container(engine_, id, deadline);
    if (!gone)
      left.push_back(
          {.pid = 1, .name = "container " + id.substr(0, 12), .uid = 0, .error = 0, .node = below.node});
  }
  co_return left;
}

// If the engine hangs, the guardian has to remove the objects that are left.
awaitable<void> ContainerAccess::finish() {
  if (!socket_) co_return;
  finishing_ = true;
  const TimePoint deadline = Clock::now() + kFinishLimit;
  while (!makings_.empty() && Clock::now() < deadline) co_await pause_for(executor_, kMakingPause);
  const bool unsure = !makings_.empty();  // the engine may still create objects: the guardian removes them
  makings_.cancel();
  while (!makings_.empty()) co_await pause_for(executor_, kMakingPause);
  const auto removed = co_await remove_labelled(engine_, {job_label()}, deadline);
  if (removed && !unsure) {
    guardian_.dismiss();
  } else {
    guardian_.hurry();
  }
}

awaitable<void> ContainerAccess::watch() {
  const std::string label = fmt::format("{}={}", kLauncherLabel, here_.launcher);
  const std::string filter =
      percent_encoded(Json({{"type", {"container"}}, {"event", {"oom"}}, {"label", {label}}}).dump());
  for (;;) {
    (void)co_await engine_.read_lines({.verb = "GET", .target = "/events?filters=" + filter},
                                      [this](std::string_view event) { hear_of_memory(event); });
    co_await pause_for(executor_, std::chrono::seconds(1));  // the engine went away
  }
}

void ContainerAccess::hear_of_memory(std::string_view event) {
  const std::string id = text_in(member(parse_json(event), "Actor"), "ID");
  for (const auto& [agent, weak] : shells_) {
    const auto shell = weak.lock();
    if (shell && shell->id() == id) shell->ran_out_of_memory();
  }
}

}  // namespace muster::launcher
