#include "launcher/io/fleet/container_preparation.h"

#include <cstdlib>
#include <map>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/task_group.h"
#include "launcher/core/fleet/container_spec.h"
#include "launcher/core/fleet/image_name.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/fleet/container_cleanup.h"
#include "launcher/io/fleet/docker_engine.h"
#include "launcher/io/fleet/engine_json.h"
#include "launcher/io/fleet/registry_credentials.h"
#include "launcher/io/stop_signal.h"

namespace muster::launcher {

namespace {

constexpr Duration kCleanupLimit = std::chrono::seconds(30);
constexpr Duration kPullProgressPeriod = std::chrono::seconds(2);

// What the lines of a pull say of its layers.
class PullProgress {
 public:
  void hear(std::string_view line) {
    constexpr std::size_t kMostLayers = 1000;
    const Json json = parse_json(line);
    if (const std::string error = text_in(json, "error"); !error.empty()) error_ = one_line(error);
    const std::string id = text_in(json, "id");
    const std::string status = text_in(json, "status");
    if (id.empty() || status.empty() || status.starts_with("Pulling from") || layers_.size() >= kMostLayers)
      return;
    Layer& layer = layers_[id];
    layer.done = status == "Pull complete" || status == "Already exists";
    if (status != "Downloading") return;
    layer.got = bytes_in(member(json, "progressDetail"), "current");
    layer.size = bytes_in(member(json, "progressDetail"), "total");
  }
  const std::string& error() const { return error_; }
  bool has_begun() const { return !layers_.empty(); }
  // "3 of 5 layers, 120 of 300 MB"
  std::string text() const {
    std::size_t done = 0;
    std::int64_t got = 0;
    std::int64_t size = 0;
    for (const auto& [id, layer] : layers_) {
      done += layer.done ? 1 : 0;
      got += layer.done ? layer.size : layer.got;
      size += layer.size;
    }
    constexpr double kMegabyte = 1e6;
    return fmt::format("{} of {} layers, {:.0f} of {:.0f} MB", done, layers_.size(),
                       static_cast<double>(got) / kMegabyte, static_cast<double>(size) / kMegabyte);
  }

 private:
  struct Layer {
    bool done = false;
    std::int64_t got = 0;
    std::int64_t size = 0;
  };
  static std::int64_t bytes_in(const Json& object, const std::string& key) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
    const Json& number = member(object, key);
    return number.is_number_unsigned()
               ? static_cast<std::int64_t>(std::min(number.get<std::uint64_t>(), kMost))
               : 0;
  }

  std::map<std::string, Layer> layers_;
  std::string error_;
};

class Preparation {
 public:
  Preparation(const Plan& plan, const PreparationSetting& setting, std::string socket)
      : plan_(plan),
        setting_(setting),
        tasks_(context_.get_executor()),
        engine_(context_.get_executor(), std::move(socket)),
        progress_(context_) {}
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  int run() {
    StopSignal stop(context_, setting_.signals, [this](int number) {
      exit_code_ = 128 + number;
      tasks_.cancel();
      progress_.cancel();
    });
    tasks_.spawn(prepare_and_say(stop));
    context_.run();
    return exit_code_;
  }

 private:
  const ContainerOptions& options() const { return plan_.remote.container; }

  awaitable<void> prepare_and_say(StopSignal& stop) {
    const Status ready = co_await prepare();
    const bool stopped = exit_code_ != 0;  // what was under way then failed for that
    if (!ready && !stopped) {
      setting_.say(ready.error().message());
      exit_code_ = ready.error().code() == ErrorCode::kInvalidArgument ? kExitUsage : kExitInternal;
    }
    stop.cancel();
    progress_.cancel();
  }

  // Errors: kInvalidArgument, a flag names what is not there.
  awaitable<Status> prepare() {
    const auto removed = co_await remove_abandoned(engine_, Clock::now() + kCleanupLimit);
    if (!removed) co_return std::unexpected(unusable(removed.error()));
    if (*removed > 0)
      setting_.say(fmt::format(
          "removed {} of launchers that are gone",
          *removed == 1 ? "1 container or network" : fmt::format("{} containers and networks", *removed)));
    if (Status there = co_await find_network(); !there) co_return there;
    give_logs_away();
    co_return co_await find_image();
  }

  // Where root lets somebody else run in the containers, their logs are somebody else's to write.
  void give_logs_away() const {
    const auto parts = split(options().user, ':');
    const auto user = parse_number<uid_t>(parts.front());
    const auto group = parse_number<gid_t>(parts.back());
    if (geteuid() != 0 || !user) return;
    const bool given = chown(plan_.job.log_directory.c_str(), *user, group.value_or(*user)) == 0;
    if (!given) log::warning("{} cannot be given to {}", plan_.job.log_directory, options().user);
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
          "--image: {} is not there, and --pull is never: `docker pull {}`, or leave --pull out", image,
          image);
    co_return co_await pull();
  }

  awaitable<Status> pull() {
    const std::string& image = options().image;
    const ImageName name = parse_image(image);
    auto auth = co_await registry_auth(docker_config_directory(), name.registry,
                                       plan_.job.log_directory + "/registry.log");
    if (!auth) co_return failure(ErrorCode::kUnavailable, "--image: {}: {}", image, auth.error().message());
    setting_.say(fmt::format("pulling {}", image));
    tell_progress();
    const auto pulled = co_await engine_.read_lines(
        {.verb = "POST",
         .target = fmt::format("/images/create?fromImage={}&tag={}", percent_encoded(name.repository),
                               percent_encoded(name.tag)),
         .registry_auth = *std::move(auth)},
        [this](std::string_view line) { pulled_.hear(line); });
    if (!pulled) co_return std::unexpected(unusable(pulled.error()));
    const std::string why = pulled->good() ? pulled_.error() : pulled->message();
    if (why.empty()) co_return Status{};
    const std::string todo = container_advice(why);
    co_return failure(ErrorCode::kUnavailable, "--image: {} cannot be pulled: {}{}", image, why,
                      todo.empty() ? "" : fmt::format(" ({})", todo));
  }

  void tell_progress() {
    progress_.expires_after(kPullProgressPeriod);
    progress_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      if (pulled_.has_begun()) setting_.say(fmt::format("pulling {}: {}", options().image, pulled_.text()));
      tell_progress();
    });
  }

  const Plan& plan_;
  const PreparationSetting& setting_;
  asio::io_context context_{1};
  net::TaskGroup tasks_;
  DockerEngine engine_;
  asio::steady_timer progress_;
  PullProgress pulled_;
  int exit_code_ = 0;
};

}  // namespace

int prepare_containers(const Plan& plan, const PreparationSetting& setting) {
  auto socket = docker_socket(std::getenv("DOCKER_HOST"));
  if (!socket) {
    setting.say(socket.error().message());
    return kExitUsage;
  }
  return Preparation(plan, setting, *std::move(socket)).run();
}

}  // namespace muster::launcher
