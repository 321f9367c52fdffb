// Programs that were written for torchrun, or for nothing at all, over two and four hosts: unchanged.
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

#include "tests/hosts/launch_hosts.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;

// On so many hosts.
class Clients : public LaunchHosts, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    LaunchHosts::SetUp();
    if (IsSkipped()) return;
    lab_ = std::make_unique<Lab>(GetParam());
    // As Debian's installer does it: a host's own name leads to itself. By itself Gloo offers that address to
    // the others, whose ranks do not reach it.
    const std::string own_name =
        "echo 127.0.1.1 $(hostname) | cat - /etc/hosts >/tmp/hosts; cat /tmp/hosts >/etc/hosts";
    for (int i = 0; i < GetParam(); ++i) ASSERT_EQ(lab_->host(i).run({"sh", "-c", own_name}), 0);
  }
  void run(const std::vector<std::string>& program) {
    launch(GetParam(), {"--device", "cpu", "--gpus-per-node", std::to_string(ranks_ / GetParam())}, program);
    EXPECT_EQ(run_->exit_code(), 0) << run_->out() << run_->err();
  }
  void expect_every_rank_on_its_host() {
    for (int rank = 0; rank < ranks_; ++rank)
      EXPECT_THAT(run_->out(),
                  HasSubstr(fmt::format("rank {} of {} on h{}\n", rank, ranks_, rank * GetParam() / ranks_)));
    expect_nothing_left();
  }
#ifdef MUSTER_TORCH_PYTHON
  // Of the parameters that all ranks have ended with; one of them was killed in its first attempt.
  std::string hash_of(const std::string& script, const std::string& directory, int fail_at, int restarts) {
    setenv("PYTHON_EXEC", MUSTER_TORCH_PYTHON, 1);
    run({PYTHON_SCRIPTS + script, lab_->shared() + "/" + directory, std::to_string(fail_at)});
    unsetenv("PYTHON_EXEC");
    EXPECT_EQ(run_->report()["restarts"], restarts) << run_->err();
    const std::string out = run_->out();
    const std::regex pattern("rank [0-9] parameters ([0-9a-f]{64})");
    std::vector<std::string> hashes;
    for (std::sregex_iterator at(out.begin(), out.end(), pattern), end; at != end; ++at)
      hashes.push_back((*at)[1]);
    EXPECT_THAT(hashes, testing::SizeIs(ranks_)) << out;
    EXPECT_THAT(hashes, testing::Each(hashes.empty() ? "" : hashes[0])) << out;
    expect_nothing_left();
    return hashes.empty() ? "" : hashes[0];
  }
#endif

  int ranks_ = 4;
};

TEST_P(Clients, AShellLine) {
  run({"sh", "-c", "echo rank $RANK of $WORLD_SIZE on $(hostname)"});
  expect_every_rank_on_its_host();
}

TEST_P(Clients, ACProgramThatSpeaksToTheStore) {
  run({COUNT_RANKS});
  expect_every_rank_on_its_host();
}

#ifdef MUSTER_TORCH_PYTHON
TEST_P(Clients, AScriptOfDistributedDataParallelThatLosesARank) {
  ranks_ = GetParam();
  const std::string hit = hash_of("python_ddp_script.py", "hit", 5, 1);
  EXPECT_THAT(run_->out(), HasSubstr("restart 1 starts at step 5"));
  // Torch's DDP puts its buckets in another order after its first step, also after a restart: sums of more
  // than two ranks differ in their last bits then.
  if (ranks_ == 2) EXPECT_EQ(hash_of("python_ddp_script.py", "undisturbed", -1, 0), hit);
}

TEST_P(Clients, AScriptOfAccelerateThatLosesARank) {
  hash_of("python_accelerate_script.py", "hit", 1, 1);
  EXPECT_THAT(run_->out(), HasSubstr("restart 1 starts at epoch 2"));
}
#endif

INSTANTIATE_TEST_SUITE_P(Hosts, Clients, testing::Values(4),
                         [](const auto& hosts) { return fmt::format("{}", hosts.param); });

}  // namespace
}  // namespace muster::hosts
