// Stops `launch --image` while the engine creates its containers.
#include <csignal>
#include <random>
#include <thread>

#include "tests/docker/launch_containers.h"

namespace muster::docker {
namespace {

using testing::IsEmpty;

// Stops at random moments of the first quarter of a second: while the network or containers are created, or
// start. The time is the fault itself, so this waits for no condition.
TEST_F(DockerLaunch, NothingIsLeftOfALaunchThatIsStoppedWhateverItIsMaking) {
  constexpr auto kStep = 30ms;
  const auto first = std::chrono::milliseconds(std::random_device()() % kStep.count());
  for (auto after = 10ms + first; after <= 260ms; after += kStep) {
    launch({"--nodes", "3", "--gpus-per-node", "1", "--quiet"}, {"sleep", "1000"});
    std::this_thread::sleep_for(after);
    run_->signal(SIGTERM);
    EXPECT_EQ(run_->exit_code(), 128 + SIGTERM) << after << run_->err();
    EXPECT_THAT(engine().containers(), IsEmpty()) << after;
    EXPECT_THAT(engine().networks(), IsEmpty()) << after;
    expect_nothing_left(*run_);
  }
}

}  // namespace
}  // namespace muster::docker
