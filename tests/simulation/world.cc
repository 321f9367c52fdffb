#include "tests/simulation/world.h"

#include "launcher/core/fleet/clock_offset.h"
#include "tests/simulation/agent_host.h"
#include "tests/simulation/training.h"

namespace muster::simulation {

using namespace std::chrono_literals;

namespace {

Duration drift_within(Duration time, double drift) {
  return Duration(static_cast<Duration::rep>(drift * static_cast<double>(time.count())));
}

}  // namespace

World::World(Script what, std::uint64_t with_seed)
    : script(std::move(what)),
      seed(with_seed),
      chance(with_seed, 3),
      other_chance(with_seed, 4),
      clock_error(2 * script.delays.most +
                  drift_within(2 * launcher::ClockOffset::kPeriod, 2 * script.drift) + 5ms) {
  for (int node = 0; node < script.most_agents(); ++node) {
    machines.push_back(std::make_unique<Machine>(timeline, chance, script, node));
    machines.back()->set_on_end([this](const SimulatedProcess& ended, int exit_code, int signal) {
      const auto training = trainings.find({ended.owner.launch, ended.attempt});
      if (ended.is_worker() && training != trainings.end())
        training->second->ended(ended.rank, exit_code, signal);
      const auto host = hosts.find(ended.owner);
      if (host == hosts.end()) return;
      if (const auto agent = host->second.lock()) agent->process_ended(ended, exit_code, signal);
    });
  }
}

bool World::any_datagram_lost_since(TimePoint time) const {
  return std::ranges::any_of(machines,
                             [time](const auto& each) { return time < each->datagrams_lost_until; });
}

// Events may hold connections, which inform their peers when they are destroyed.
World::~World() {
  timeline.close();
}

}  // namespace muster::simulation
