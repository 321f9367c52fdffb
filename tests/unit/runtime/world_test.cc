#include "runtime/comm/world.h"

#include <gmock/gmock.h>
#include <map>

namespace muster {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Expected<World> read(const Variables& variables, const std::string& method = "env://", int rank = -1,
                     int world_size = -1) {
  return read_world(method, rank, world_size, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_RUN_ID", "run"}};
}

std::string error_of(Variables changes, const std::string& unset = "") {
  Variables variables = torchrun();
  for (auto& [name, value] : changes) variables[name] = value;
  variables.erase(unset);
  const auto world = read(variables);
  return world ? "no error" : world.error().message();
}

TEST(World, IsOneWithoutAStoreWhenNobodySetTheVariables) {
  const auto world = read({{"MUSTER_CHECKPOINT_DIR", "/ckpt"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->world_size, 1);
  EXPECT_EQ(world->store, StoreKind::kNone);
  EXPECT_EQ(world->checkpoint_dir, "/ckpt");
}

TEST(World, IsReadFromTorchrunsVariables) {
  const auto world = read(torchrun());
  ASSERT_TRUE(world) << world.error().message();
  EXPECT_EQ(world->rank, 3);
  EXPECT_EQ(world->world_size, 4);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->local_world_size, 2);
  EXPECT_EQ(world->node_rank, 1);
  EXPECT_EQ(world->node_count, 2);
  EXPECT_EQ(world->host, "127.0.0.1");
  EXPECT_EQ(world->port, 29500);
  EXPECT_EQ(world->restart_count, 2);
  EXPECT_EQ(world->job_id, "run");
  EXPECT_EQ(world->attempt, 0U);
  EXPECT_FALSE(world->resume_step);
}

TEST(World, TakesJobAttemptAndStepFromTheLauncher) {
  Variables variables = torchrun();
  variables["MUSTER_JOB_ID"] = "job";
  variables["MUSTER_ATTEMPT"] = "18446744073709551615";
  variables["MUSTER_RESUME_STEP"] = "400";
  variables["MUSTER_SOCKET"] = "/run/s";
  variables["MUSTER_BACKEND"] = "gloo";
  const auto world = read(variables);
  ASSERT_TRUE(world) << world.error().message();
  EXPECT_EQ(world->job_id, "job");
  EXPECT_EQ(world->attempt, 18446744073709551615U);
  EXPECT_EQ(world->resume_step, 400);
  EXPECT_EQ(world->report_socket, "/run/s");
  EXPECT_EQ(world->backend, "gloo");
}

TEST(World, KnowsTheFirstRankOfItsNodeWhereLocalRanksAreVirtual) {
  EXPECT_EQ(read(torchrun())->first_rank_on_node(), 2);
  Variables variables = torchrun();
  variables["LOCAL_RANK"] = "0";
  variables["MUSTER_LOCAL_RANK"] = "1";
  EXPECT_EQ(read(variables)->local_rank, 0);
  EXPECT_EQ(read(variables)->first_rank_on_node(), 2);
}

TEST(World, IsServedByTheAgentOrElseByRankZero) {
  Variables variables = torchrun();
  variables["RANK"] = "0";
  EXPECT_EQ(read(variables)->store, StoreKind::kConnect);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(read(variables)->store, StoreKind::kServe);
  variables["RANK"] = "1";
  EXPECT_EQ(read(variables)->store, StoreKind::kConnect);
}

TEST(World, HasOneNodeWhenOnlyRankAndSizeAreSet) {
  const auto world =
      read({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->local_rank, 2);
  EXPECT_EQ(world->local_world_size, 4);
}

TEST(World, ErrorsNameTheVariableItsValueAndWhatWouldBeRight) {
  EXPECT_EQ(error_of({{"RANK", "abc"}}), "RANK=abc is not a number from 0 to 2147483647");
  EXPECT_EQ(error_of({{"RANK", "4"}}), "RANK=4 is not below WORLD_SIZE=4");
  EXPECT_EQ(error_of({{"RANK", "-1"}}), "RANK=-1 is not a number from 0 to 2147483647");
  EXPECT_EQ(error_of({{"WORLD_SIZE", "0"}}), "WORLD_SIZE=0 is not a number from 1 to 2147483647");
  EXPECT_EQ(error_of({{"MASTER_PORT", "70000"}}), "MASTER_PORT=70000 is not a number from 1 to 65535");
  EXPECT_EQ(error_of({{"LOCAL_RANK", "2"}}), "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2");
  EXPECT_EQ(error_of({{"MUSTER_LOCAL_RANK", "2"}}), "MUSTER_LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2");
  EXPECT_EQ(error_of({{"MUSTER_ATTEMPT", "1x"}}),
            "MUSTER_ATTEMPT=1x is not a number from 0 to 18446744073709551615");
  EXPECT_EQ(error_of({{"MUSTER_BACKEND", "zeus"}}), "MUSTER_BACKEND=zeus is not one of gloo, nccl, mpi, shm");
  EXPECT_THAT(error_of({}, "MASTER_PORT"),
              HasSubstr("MASTER_PORT is not set: start the program with launch or torchrun"));
  EXPECT_THAT(error_of({}, "MASTER_ADDR"), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(error_of({}, "WORLD_SIZE"), HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(error_of({}, "RANK"), HasSubstr("RANK is not set"));
  EXPECT_THAT(error_of({{"RANK", ""}}), HasSubstr("RANK is not set"));
}

TEST(World, IsReadFromTcpAndFileMethods) {
  const auto tcp = read({}, "tcp://[::1]:2000", 0, 2);
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp->host, "::1");
  EXPECT_EQ(tcp->port, 2000);
  EXPECT_EQ(tcp->store, StoreKind::kServe);
  EXPECT_EQ(read({}, "tcp://host:2000", 1, 2)->store, StoreKind::kConnect);
  const auto file = read({}, "file:///tmp/store", 1, 2);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path, "/tmp/store");
  EXPECT_EQ(file->local_rank, 1);
}

TEST(World, RefusesMethodsItCannotUse) {
  EXPECT_THAT(read({}, "tcp://host", 0, 1).error().message(), HasSubstr("tcp://host is not tcp://host:port"));
  EXPECT_THAT(read({}, "tcp://host:99999", 0, 1).error().message(), HasSubstr("is not tcp://host:port"));
  EXPECT_THAT(read({}, "tcp://host:20x0", 0, 1).error().message(), HasSubstr("is not tcp://host:port"));
  EXPECT_THAT(read({}, "tcp://host:2000", 2, 2).error().message(), HasSubstr("they are 2 and 2"));
  EXPECT_THAT(read({}, "file:///tmp/store").error().message(), HasSubstr("they are -1 and -1"));
  EXPECT_THAT(read({}, "mpi://", 0, 1).error().message(), HasSubstr("is not one of env://"));
}

}  // namespace
}  // namespace muster
