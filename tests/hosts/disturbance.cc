#include "tests/hosts/disturbance.h"

#include <algorithm>
#include <array>

#include "common/base/file.h"

namespace muster::hosts {

namespace {

using namespace std::chrono_literals;

constexpr std::array kNames{"kill a worker", "kill the agent",         "stop the agent",      "cut off",
                            "unheard",       "deaf to the launcher",   "apart from the next", "flapping",
                            "kill the ssh",  "kill the sshd's session"};
static_assert(kNames.size() == static_cast<std::size_t>(Kind::kCount));

bool has_length(Kind kind) {
  return kind == Kind::kStopAgent || kind == Kind::kCut || kind == Kind::kCutFrom || kind == Kind::kCutTo ||
         kind == Kind::kCutPair || kind == Kind::kFlap;
}

bool is_cut(Kind kind) {
  return has_length(kind) && kind != Kind::kStopAgent;
}

// Draws one of the hosts that may be cut off.
int next_of(int host, int hosts) {
  return host % (hosts - 1) + 1;
}

bool names_host(pid_t pid, const std::string& host) {
  const std::string words = read_file(fmt::format("/proc/{}/cmdline", pid), 1 << 16).value_or("");
  return words.find('\0' + host + '\0') != std::string::npos;
}

}  // namespace

const char* name_of(Kind kind) {
  return kNames.at(static_cast<std::size_t>(kind));
}

Disturbance draw(std::mt19937_64& random, int hosts) {
  const auto between = [&random](int least, int most) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1)) + least;
  };
  Disturbance drawn;
  drawn.kind = static_cast<Kind>(between(0, static_cast<int>(Kind::kCount) - 1));
  drawn.host = between(is_cut(drawn.kind) ? 1 : 0, hosts - 1);
  drawn.pause = std::chrono::milliseconds(between(0, 2500));
  // A host that is cut from one other host notices it only when an attempt begins.
  if (drawn.kind == Kind::kCutPair) {
    drawn.length = std::chrono::milliseconds(between(5000, 15'000));
  } else if (has_length(drawn.kind)) {
    drawn.length = std::chrono::milliseconds(between(300, 6000));
  }
  return drawn;
}

std::string text_of(const Disturbance& what) {
  return fmt::format("{} h{}{}", name_of(what.kind), what.host,
                     has_length(what.kind) ? fmt::format(" {} ms", what.length.count()) : "");
}

std::vector<pid_t> Disturber::targets(const Disturbance& what) const {
  switch (what.kind) {
    case Kind::kKillWorker: return lab_.processes(what.host, "counter");
    case Kind::kKillAgent:
    case Kind::kStopAgent: return lab_.processes(what.host, "muster-agent");
    case Kind::kKillClient: {
      std::vector<pid_t> clients = lab_.processes(0, "ssh");
      std::erase_if(clients, [&](pid_t pid) { return !names_host(pid, lab_.host(what.host).name()); });
      return clients;
    }
    case Kind::kKillServer: return lab_.processes(what.host, "sshd");
    default: return {};
  }
}

bool Disturber::begin(const Disturbance& what) {
  const TimePoint now = Clock::now();
  if (what.kind == Kind::kFlap) {
    // Away for two thirds of the time.
    for (auto at = 0ms; at < what.length; at += 600ms) cuts_.push_back({what, now + at, now + at + 400ms});
  } else if (is_cut(what.kind)) {
    cuts_.push_back({what, now, now + what.length});
  } else {
    const std::vector<pid_t> found = targets(what);
    if (found.empty()) return false;
    const pid_t hit = *std::ranges::min_element(found);  // for agents, this is the agent and not its guardian
    if (what.kind == Kind::kStopAgent) {
      kill(hit, SIGSTOP);
      stopped_.emplace(now + what.length, hit);
    } else {
      kill(hit, SIGKILL);
    }
  }
  end_due();
  return true;
}

void Disturber::end_due() {
  const TimePoint now = Clock::now();
  while (!stopped_.empty() && stopped_.begin()->first <= now) {
    kill(stopped_.begin()->second, SIGCONT);
    stopped_.erase(stopped_.begin());
  }
  const bool changes = std::ranges::any_of(
      cuts_, [now](const Cut& cut) { return cut.until <= now || (!cut.made && cut.from <= now); });
  if (!changes) return;
  std::erase_if(cuts_, [now](const Cut& cut) { return cut.until <= now; });
  make_cuts();
}

// Heals all cuts: the switch drops all its rules at once.
void Disturber::make_cuts() {
  lab_.heal();
  for (Cut& cut : cuts_) {
    if (cut.from > Clock::now()) continue;
    cut.made = true;
    switch (cut.what.kind) {
      case Kind::kCutFrom: lab_.isolate_one_way(cut.what.host); break;
      case Kind::kCutPair: lab_.cut(cut.what.host, next_of(cut.what.host, hosts_)); break;
      case Kind::kCutTo: lab_.cut_one_way(0, cut.what.host); break;
      default: lab_.isolate(cut.what.host); break;
    }
  }
}

void Disturber::end_all() {
  for (const auto& [until, pid] : stopped_) kill(pid, SIGCONT);
  stopped_.clear();
  cuts_.clear();
  lab_.heal();
}

}  // namespace muster::hosts
