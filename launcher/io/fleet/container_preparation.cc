#include "launcher/io/fleet/container_preparation.h"

#include <cstdlib>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/task_group.h"
#include "launcher/core/fleet/container_spec.h"
#include "launcher/core/fleet/image_name.h"
#include "launcher/core/text/foreign_json.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/core/view/pull_progress.h"
#include "launcher/io/fleet/container_cleanup.h"
#include "launcher/io/fleet/docker_engine.h"
#include "launcher/io/fleet/periodic.h"
#include "launcher/io/fleet/registry_credentials.h"

namespace muster::launcher {

namespace {

constexpr Duration kPullProgressPeriod = std::chrono::seconds(2);

class Preparation {
 public:
  Preparation(const Plan& plan, const BeforeJob& setting, std::string socket)
      : plan_(plan),
        setting_(setting),
        tasks_(context_.get_executor()),
        engine_(context_.get_executor(), std::move(socket)),
        progress_(context_, kPullProgressPeriod, [this] { tell_progress(); }) {}
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  int run() {
    StopSignal stop(context_, setting_.signals, [this](int number) {
      exit_code_ = 128 + number;
      tasks_.cancel();
      progress_.stop();
    });
    tasks_.spawn(prepare_and_say(stop));
    context_.run();
    return exit_code_;
  }

 private:
  const ContainerOptions& options() const { return plan_.remote.container; }

  awaitable<void> prepare_and_say(StopSignal& stop) {
    const Status ready = co_await prepare();
    const bool stopped = exit_code_ != 0;  // by a signal: then prepare() failed for that reason
    if (!ready && !stopped) {
      setting_.say(ready.error().message());
      exit_code_ = ready.error().code() == ErrorCode::kInvalidArgument ? kExitUsage : kExitInternal;
    }
    stop.cancel();
    progress_.stop();
  }

  // Prepares the engine. If a flag names something that does not exist, returns kInvalidArgument.
  awaitable<Status> prepare() {
    const auto abandoned = co_await remove_abandoned(engine_);
    if (!abandoned) co_return std::unexpected(unusable(abandoned.error()));
    if (const std::size_t removed = abandoned->removed; removed > 0)
      setting_.say(fmt::format(
          "removed {} left by launchers that are gone",
          removed == 1 ? "1 container or network" : fmt::format("{} containers and networks", removed)));
    for (const std::string& job : abandoned->left)
      setting_.say(fmt::format(
          "cannot remove all containers and networks of job {}, though its launcher is gone: list them with "
          "`docker ps -a` and `docker network ls`, with --filter label={}={}",
          job, kJobLabel, job));
    if (Status there = co_await find_network(); !there) co_return there;
    give_logs_away();
    co_return co_await find_image();
  }

  // Root can run the containers as another user (--user). Then this gives the logs to that user, so that the
  // containers can write them.
  void give_logs_away() const {
    const auto parts = split(options().user, ':');
    const auto user = parse_number<uid_t>(parts.front());
    const auto group = parse_number<gid_t>(parts.back());
    if (geteuid() != 0 || !user) return;
    const bool given = chown(plan_.job.log_directory.c_str(), *user, group.value_or(*user)) == 0;
    if (!given) log::warning("cannot change the owner of {} to {}", plan_.job.log_directory, options().user);
  }

  static Error unusable(const Error& error) { return Error(ErrorCode::kUnavailable, error.message()); }

  awaitable<Status> find_network() {
    const std::string& name = options().network;
    if (name.empty()) co_return Status{};
    const auto found = co_await engine_.ask({.verb = "GET", .target = "/networks/" + percent_encoded(name)});
    if (!found) co_return std::unexpected(unusable(found.error()));
    if (found->is_missing())
      co_return failure(ErrorCode::kInvalidArgument,
                        "--network: the engine has no network {}: `docker network ls` lists them", name);
    co_return Status{};
  }

  awaitable<Status> find_image() {
    const std::string& image = options().image;
    if (options().pull == Pull::kAlways) co_return co_await pull();
    const auto found = co_await engine_.ask({.verb = "GET", .target = fmt::format("/images/{}/json", image)});
    if (!found) co_return std::unexpected(unusable(found.error()));
    if (found->good()) co_return Status{};
    if (!found->is_missing())
      co_return failure(ErrorCode::kUnavailable, "--image: {}: {}", image, found->message());
    if (options().pull == Pull::kNever)
      co_return failure(
          ErrorCode::kUnavailable,
          "--image: {} is not on this machine, and --pull is never: run `docker pull {}`, or omit --pull",
          image, image);
    co_return co_await pull();
  }

  awaitable<Status> pull() {
    const std::string& image = options().image;
    const ImageName name = parse_image(image);
    auto auth = co_await registry_auth(docker_config_directory(), name.registry,
                                       plan_.job.log_directory + "/registry.log");
    if (!auth) co_return failure(ErrorCode::kUnavailable, "--image: {}: {}", image, auth.error().message());
    setting_.say(fmt::format("pulling {}", image));
    progress_.start();
    const auto pulled = co_await engine_.read_lines(
        {.verb = "POST",
         .target = fmt::format("/images/create?fromImage={}&tag={}", percent_encoded(name.repository),
                               percent_encoded(name.tag)),
         .registry_auth = *std::move(auth)},
        [this](std::string_view line) { pulled_.hear(line); });
    if (!pulled) co_return std::unexpected(unusable(pulled.error()));
    const std::string why = pulled->good() ? pulled_.error() : pulled->message();
    if (why.empty()) co_return Status{};
    co_return failure(ErrorCode::kUnavailable, "--image: cannot pull {}: {}", image,
                      with_container_advice(why));
  }

  void tell_progress() {
    std::string text = pulled_.text();
    if (text != said_) setting_.say(fmt::format("pulling {}: {}", options().image, text));
    said_ = std::move(text);
  }

  const Plan& plan_;
  const BeforeJob& setting_;
  asio::io_context context_{1};
  net::TaskGroup tasks_;
  DockerEngine engine_;
  Periodic progress_;
  PullProgress pulled_;
  std::string said_;  // the last progress line
  int exit_code_ = 0;
};

}  // namespace

int prepare_containers(const Plan& plan, const BeforeJob& setting) {
  auto socket = docker_socket(std::getenv("DOCKER_HOST"));
  if (!socket) {
    setting.say(socket.error().message());
    return kExitUsage;
  }
  return Preparation(plan, setting, *std::move(socket)).run();
}

}  // namespace muster::launcher
