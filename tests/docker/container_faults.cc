#include "tests/docker/container_faults.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fmt/format.h>
#include <thread>

#include "common/base/file.h"

namespace muster::docker {

namespace {

constexpr std::array kNames{
    "kill",          "remove",        "pause",        "disconnect",      "unheard",          "deaf",
    "kill a worker", "stop a worker", "kill dockerd", "restart dockerd", "kill the launcher"};
static_assert(kNames.size() == static_cast<std::size_t>(Kind::kCount));

bool hits_a_node(Kind kind) {
  return kind < Kind::kKillEngine;
}

bool has_length(Kind kind) {
  return kind == Kind::kPause || kind == Kind::kDisconnect || kind == Kind::kUnheard || kind == Kind::kDeaf ||
         kind == Kind::kKillEngine;
}

}  // namespace

Fault draw(std::mt19937_64& random, int nodes) {
  const auto between = [&random](int least, int most) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1)) + least;
  };
  Fault drawn;
  drawn.kind = static_cast<Kind>(between(0, static_cast<int>(Kind::kCount) - 1));
  drawn.node = between(0, nodes - 1);
  drawn.pause = std::chrono::milliseconds(between(0, 2500));
  if (has_length(drawn.kind)) drawn.length = std::chrono::milliseconds(between(300, 6000));
  return drawn;
}

std::string text_of(const Fault& fault) {
  std::string text = kNames.at(static_cast<std::size_t>(fault.kind));
  if (hits_a_node(fault.kind)) text += fmt::format(" node{}", fault.node);
  if (has_length(fault.kind)) text += fmt::format(" {} ms", fault.length.count());
  return text;
}

bool Faults::docker(const std::vector<std::string>& words) const {
  std::string said;
  return engine_.docker(words, &said) == 0;
}

bool Faults::signal_worker(const std::string& container, int number) const {
  for (const pid_t pid : engine_.processes()) {
    const std::string directory = fmt::format("/proc/{}/", pid);
    if (read_file(directory + "comm", 64).value_or("") != worker_ + "\n") continue;
    if (!read_file(directory + "cgroup", 1 << 16).value_or("").contains(container)) continue;
    ::kill(pid, number);
    return true;
  }
  return false;
}

bool Faults::hit(const Fault& fault, const std::string& container) {
  const auto end_by = [&](std::function<void()> end) {
    ends_.emplace_back(Clock::now() + fault.length, std::move(end));
    return true;
  };
  switch (fault.kind) {
    case Kind::kKill: return docker({"kill", container});
    case Kind::kRemove: return docker({"rm", "--force", container});
    case Kind::kPause:
      return docker({"pause", container}) && end_by([this, container] { docker({"unpause", container}); });
    case Kind::kDisconnect: {
      const auto networks = engine_.networks();
      if (networks.size() != 1 || !docker({"network", "disconnect", networks[0], container})) return false;
      return end_by(
          [this, container, network = networks[0]] { docker({"network", "connect", network, container}); });
    }
    case Kind::kUnheard:
    case Kind::kDeaf: {
      const auto direction = fault.kind == Kind::kDeaf ? Engine::Direction::kHeard : Engine::Direction::kSent;
      return engine_.cut_one_way(container, direction) && end_by([this] { engine_.heal(); });
    }
    case Kind::kKillWorker: return signal_worker(container, SIGKILL);
    case Kind::kStopWorker: return signal_worker(container, SIGSTOP);
    default: return false;
  }
}

bool Faults::begin(const Fault& fault) {
  if (!hits_a_node(fault.kind)) {
    fault.kind == Kind::kKillEngine ? engine_.kill() : engine_.stop();
    std::this_thread::sleep_for(fault.length);
    engine_.start();
    return true;
  }
  std::string id;
  const std::string label = fmt::format("label=muster.node={}", fault.node);
  const bool asked =
      engine_.docker({"ps", "--quiet", "--no-trunc", "--filter", "status=running", "--filter", label}, &id) ==
      0;
  id = id.substr(0, id.find('\n'));
  return asked && !id.empty() && hit(fault, id);
}

void Faults::end_due() {
  const TimePoint now = Clock::now();
  const auto due = std::ranges::partition(ends_, [now](const auto& end) { return end.first > now; });
  for (const auto& [when, end] : due) end();
  ends_.erase(due.begin(), due.end());
}

void Faults::end_all() {
  for (const auto& [when, end] : ends_) end();
  ends_.clear();
}

}  // namespace muster::docker
