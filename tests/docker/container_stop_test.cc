// `launch --image` that is stopped while its containers are being made.
#include <csignal>
#include <random>
#include <thread>

#include "tests/docker/launch_containers.h"

namespace muster::docker {
namespace {

using testing::IsEmpty;

// Moments of the first quarter of a second, others each time: network, containers, and their start. The
// moment is the fault: nothing is waited for.
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
