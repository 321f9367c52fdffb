// Unchanged programs over two hosts: some written for torchrun, some for no launcher.
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

#include "tests/hosts/launch_hosts.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;

constexpr int kHosts = 2;

class Clients : public LaunchHosts {
 protected:
  void SetUp() override {
    LaunchHosts::SetUp();
    if (IsSkipped()) return;
    lab_ = std::make_unique<Lab>(kHosts);
    // As after Debian's installer, a host's own name resolves to loopback. Gloo by default gives the other
    // ranks that address, which they cannot reach.
    const std::string own_name =
        "echo 127.0.1.1 $(hostname) | cat - /etc/hosts >/tmp/hosts; cat /tmp/hosts >/etc/hosts";
    for (int i = 0; i < kHosts; ++i) ASSERT_EQ(lab_->host(i).run({"sh", "-c", own_name}), 0);
  }
  void run(const std::vector<std::string>& program) {
    launch(kHosts, {"--device", "cpu", "--gpus-per-node", std::to_string(ranks_ / kHosts)}, program);
    EXPECT_EQ(run_->exit_code(), 0) << run_->out() << run_->err();
  }
  void expect_every_rank_on_its_host() {
    for (int rank = 0; rank < ranks_; ++rank)
      EXPECT_THAT(run_->out(),
                  HasSubstr(fmt::format("rank {} of {} on h{}\n", rank, ranks_, rank * kHosts / ranks_)));
    expect_nothing_left();
  }
#ifdef MUSTER_TORCH_PYTHON
  // All ranks end with the same parameters, though one was killed in the first attempt.
  // python_unchanged_test.py compares them with an undisturbed run, on one host.
  void expect_equal_ends(const std::string& script, int fail_at) {
    ranks_ = kHosts;
    setenv("PYTHON_EXEC", MUSTER_TORCH_PYTHON, 1);
    run({PYTHON_SCRIPTS + script, lab_->shared() + "/checkpoints", std::to_string(fail_at)});
    unsetenv("PYTHON_EXEC");
    EXPECT_EQ(run_->report()["restarts"], 1) << run_->err();
    const std::string out = run_->out();
    const std::regex pattern("rank [0-9] parameters ([0-9a-f]{64})");
    std::vector<std::string> hashes;
    for (std::sregex_iterator at(out.begin(), out.end(), pattern), end; at != end; ++at)
      hashes.push_back((*at)[1]);
    EXPECT_THAT(hashes, testing::SizeIs(ranks_)) << out;
    EXPECT_THAT(hashes, testing::Each(hashes.empty() ? "" : hashes[0])) << out;
    expect_nothing_left();
  }
#endif

  int ranks_ = 4;
};

TEST_F(Clients, AShellLine) {
  run({"sh", "-c", "echo rank $RANK of $WORLD_SIZE on $(hostname)"});
  expect_every_rank_on_its_host();
}

TEST_F(Clients, ACProgramThatSpeaksToTheStore) {
  run({COUNT_RANKS});
  expect_every_rank_on_its_host();
}

#ifdef MUSTER_TORCH_PYTHON
TEST_F(Clients, AScriptOfDistributedDataParallelThatLosesARank) {
  expect_equal_ends("python_ddp_script.py", 5);
  EXPECT_THAT(run_->out(), HasSubstr("restart 1 starts at step 5"));
}

TEST_F(Clients, AScriptOfAccelerateThatLosesARank) {
  expect_equal_ends("python_accelerate_script.py", 1);
  EXPECT_THAT(run_->out(), HasSubstr("restart 1 starts at epoch 2"));
}
#endif

}  // namespace
}  // namespace muster::hosts
