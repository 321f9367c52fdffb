// Flags for containers, and jobs that lose some containers.
#include <gmock/gmock.h>

#include "tests/docker/launch_containers.h"

namespace muster::docker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Only root may write to a new volume.
TEST_F(DockerLaunch, ContainersHaveTheProcessorsTheUserAndTheVolumeThatAreGiven) {
  launch({"--gpus-per-node", "1", "--mount", "kept:/kept"},
         {"sh", "-c", "echo from the first job >/kept/text"});
  ASSERT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(engine().volumes(), testing::ElementsAre("kept"));
  launch(
      {"--gpus-per-node", "2", "--mount", "kept:/kept:ro", "--cpus", "1.5", "--container-user", "4242:4343"},
      {"sh", "-c",
       "echo $(cat /kept/text) as $(id -u):$(id -g) with $OMP_NUM_THREADS; touch /kept/x || echo read-only; "
       "sleep 1000"});
  ASSERT_TRUE(eventually([this] { return count_in(run_->out(), "read-only\n") == 2; })) << run_->err();
  EXPECT_EQ(count_in(run_->out(), "from the first job as 4242:4343 with 1\n"), 2) << run_->out();
  EXPECT_EQ(engine().printed_by({"inspect", "--format", "{{.HostConfig.NanoCpus}}", container_of(0)}),
            "1500000000");
  // The kernel's own value: microseconds per 100 ms.
  EXPECT_THAT(engine().printed_by(
                  {"exec", "--user", "0", container_of(0), "sh", "-c",
                   "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || true"}),
              HasSubstr("150000"));
  run_->signal(SIGINT);
  EXPECT_EQ(run_->exit_code(), 130) << run_->err();
  EXPECT_THAT(read_file(run_->job_directory() + "/attempt_1/rank_1/stdout.log", 1 << 16).value_or(""),
              HasSubstr("from the first job"));
  EXPECT_THAT(engine().volumes(), testing::ElementsAre("kept")) << "as docker run leaves it";
  engine().printed_by({"volume", "rm", "kept"});
}

TEST_F(DockerLaunch, TheVolumesOfAnImageGoWithTheirContainers) {
  engine().printed_by({"create", "--name", "plain", "bookworm", "true"});
  engine().printed_by({"commit", "--change", "VOLUME /scratch", "plain", "with-volume"});
  engine().printed_by({"rm", "plain"});
  run_ = launched({"--image", "with-volume", "--nodes", "2", "--gpus-per-node", "1"}, ready_until(1));
  ASSERT_NO_FATAL_FAILURE(all_are_ready(*run_, 2));
  EXPECT_THAT(engine().volumes(), testing::SizeIs(2));
  engine().printed_by({"kill", container_of(1)});
  expect_recovered(*run_, 1);
  EXPECT_THAT(engine().volumes(), IsEmpty()) << "when the launcher ends";
}

// The spare's container waits before the loss, and has a name and number of its own.
TEST_F(DockerLaunch, ASpareContainerTakesTheLostOnesPlace) {
  launch({"--nodes", "2", "--spare-nodes", "1", "--gpus-per-node", "1"},
         {"sh", "-c",
          "echo ready $TORCHELASTIC_RESTART_COUNT; echo rank $RANK of $WORLD_SIZE on $(hostname); "
          "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000"});
  ASSERT_NO_FATAL_FAILURE(all_are_ready(*run_, 2));
  ASSERT_TRUE(eventually([] { return engine().containers().size() == 3; })) << run_->err();
  engine().printed_by({"kill", container_of(1)});
  expect_recovered(*run_, 1);
  EXPECT_THAT(run_->out(), AllOf(HasSubstr("rank 1 of 2 on node1\n"), HasSubstr("rank 1 of 2 on node2\n")));
}

// A container outside the job has the name of the node's next container.
TEST_F(DockerLaunch, AnElasticJobGoesOnWithTheContainersThatCanBeStarted) {
  ASSERT_NO_FATAL_FAILURE(start_pair({"--nodes", "1:2", "--start-timeout", "2"}));
  const std::string name = container_of(1);
  engine().printed_by({"rename", name, "moved"});
  engine().printed_by({"create", "--name", name, "bookworm", "true"});
  engine().printed_by({"kill", "moved"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_EQ(run_->report()["attempts"].back()["world_size"], 2) << run_->err();
  engine().printed_by({"rm", name});
}

TEST_F(DockerLaunch, TheCheckLooksIntoAContainer) {
  const auto good = ended({"check", "--bootstrap", "docker", "--image", "bookworm", "true"});
  EXPECT_EQ(good->exit_code(), 0) << good->out() << good->err();
  EXPECT_THAT(good->out(), testing::ContainsRegex("host +reach +agent +program +torch"));
  EXPECT_THAT(good->out(), testing::ContainsRegex("muster-[^ ]+-0 +[a-z]+ +[^ ]+ +ok +- "));
  const auto bad = ended({"check", "--bootstrap", "docker", "--image", "bookworm", "no-such-program"});
  EXPECT_EQ(bad->exit_code(), 1) << bad->out() << bad->err();
  EXPECT_THAT(bad->out(), HasSubstr("cannot find the program 'no-such-program' in PATH"));
  const auto none = ended({"check", "--bootstrap", "docker", "--image", "none", "--pull", "never"});
  expect_refusal(*none, 125, {"--image: none is not on this machine, and --pull is never"});
  const auto unnamed = ended({"check", "--bootstrap", "docker"});
  expect_refusal(*unnamed, 2, {"--bootstrap: docker needs --image"});
  EXPECT_THAT(engine().containers(), IsEmpty());
  EXPECT_THAT(engine().networks(), IsEmpty());
}

}  // namespace
}  // namespace muster::docker
