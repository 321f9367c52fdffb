#include "agent/core/start/environment.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::Pair;

struct Given {
  NodeContext node{{{"PATH", "/bin"}, {"HOME", "/home/a"}}, 16, NodeId(1), Attempt(5), "/run/agent.sock"};
  wire::JobSpec job{};
  wire::PrepareAttempt plan{2, 2, 4, Rank(2), 2, false, ""};
  wire::StartWorkers start{"10.0.0.1", 29400, std::nullopt};

  Given() {
    job.job_id = "j1";
    job.log_directory = "/logs";
    job.max_restarts = 3;
  }
  Environment of(std::int32_t local_rank) const {
    Environment environment = rank_environment(node, job, plan, LocalRank(local_rank));
    environment.merge(common_environment(node, job, plan, start));
    return environment;
  }
};

TEST(EnvironmentOfAWorker, PrefersTheLaunchersToTheAgentsAndTheUsersToBoth) {
  Given given;
  given.node.inherited["A"] = given.node.inherited["B"] = given.node.inherited["C"] = "agent";
  given.job.inherited = {{"B", "launcher"}, {"C", "launcher"}};
  given.job.environment = {{"C", "user"}};
  const Environment environment = given.of(1);
  EXPECT_EQ(environment.at("A"), "agent");
  EXPECT_EQ(environment.at("B"), "launcher");
  EXPECT_EQ(environment.at("C"), "user");
}

TEST(FallbackLogDirectory, IsWhereTheLaunchersDefaultWouldBe) {
  EXPECT_EQ(fallback_log_directory({{"XDG_STATE_HOME", "/s"}, {"HOME", "/h"}}, "j"), "/s/muster/j");
  EXPECT_EQ(fallback_log_directory({{"XDG_STATE_HOME", "s"}, {"HOME", "/h"}}, "j"),
            "/h/.local/state/muster/j");
  EXPECT_EQ(fallback_log_directory({{"HOME", ""}}, "j"), "");
  EXPECT_EQ(fallback_log_directory({}, "j"), "");
}

TEST(EnvironmentOfAWorker, NamesTheInterfaceTowardsTheStoreUnlessOneIsSet) {
  Given given;
  EXPECT_THAT(given.of(0), Not(Contains(testing::Key("GLOO_SOCKET_IFNAME"))));
  given.node.interface = "eth1";
  EXPECT_THAT(given.of(0), Contains(Pair("GLOO_SOCKET_IFNAME", "eth1")));
  EXPECT_THAT(given.of(0), Contains(Pair("NCCL_SOCKET_IFNAME", "eth1")));
  given.node.inherited["GLOO_SOCKET_IFNAME"] = "ib0";
  given.job.environment["NCCL_SOCKET_IFNAME"] = "ib1";
  EXPECT_THAT(given.of(0), Contains(Pair("GLOO_SOCKET_IFNAME", "ib0")));
  EXPECT_THAT(given.of(0), Contains(Pair("NCCL_SOCKET_IFNAME", "ib1")));
}

TEST(EnvironmentOfAWorker, HasTheVariablesThatOpenMpiNeeds) {
  Given given;
  given.node.mpi = {wire::Mpi::kPmix, "/dev/shm/muster-j1"};
  given.node.interface = "eth1";
  Environment environment = given.of(1);
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_RANK"), "3");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_SIZE"), "4");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_LOCAL_RANK"), "1");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_NODE_RANK"), "1");
  EXPECT_EQ(environment.at("JSM_JSRUN_PORT"), "1");
  EXPECT_EQ(environment.at("OMPI_MCA_btl_vader_backing_directory"), "/dev/shm/muster-j1");
  EXPECT_EQ(environment.at("OMPI_MCA_btl_tcp_if_include"), "eth1");
  EXPECT_FALSE(environment.contains("OMPI_MCA_mpi_yield_when_idle")) << "each has a core";
  given.start.master_address = "fe80::1";
  given.start.master_port = 4711;
  EXPECT_EQ(given.of(1).at("OMPI_MCA_orte_hnp_uri"), "19296256.0;tcp6://[fe80::1]:4711");
  given.start.master_address = "127.0.0.1";
  EXPECT_EQ(given.of(1).at("OMPI_MCA_orte_hnp_uri"), "19296256.0;tcp://127.0.0.1:4711");
  given.node.core_count = 1;
  given.job.environment["OMPI_MCA_btl_vader_backing_directory"] = "/tmp";
  environment = given.of(0);
  EXPECT_EQ(environment.at("OMPI_MCA_btl_tcp_if_include"), "lo");
  EXPECT_EQ(environment.at("OMPI_MCA_mpi_yield_when_idle"), "1");
  EXPECT_EQ(environment.at("OMPI_MCA_btl_vader_backing_directory"), "/tmp") << "the user's";
}

TEST(EnvironmentOfAWorker, HasTheVariablesThatMpichNeeds) {
  Given given;
  given.node.mpi = {wire::Mpi::kPmi, "/dev/shm/muster-j1"};
  const Environment environment = given.of(1);
  EXPECT_EQ(environment.at("PMI_RANK"), "3");
  EXPECT_EQ(environment.at("PMI_SIZE"), "4");
  EXPECT_EQ(environment.at("MPI_LOCALNRANKS"), "2");
  EXPECT_EQ(environment.at("MPI_LOCALRANKID"), "1");
  EXPECT_FALSE(environment.contains("OMPI_COMM_WORLD_RANK"));
}

TEST(EnvironmentOfAWorker, IsTorchrunsAndMustersAndNothingElse) {
  const Environment expected = {{"PATH", "/bin"},
                                {"HOME", "/home/a"},
                                {"LOCAL_RANK", "1"},
                                {"RANK", "3"},
                                {"GROUP_RANK", "1"},
                                {"ROLE_RANK", "3"},
                                {"ROLE_NAME", "default"},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"WORLD_SIZE", "4"},
                                {"GROUP_WORLD_SIZE", "2"},
                                {"ROLE_WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "10.0.0.1"},
                                {"MASTER_PORT", "29400"},
                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                {"TORCHELASTIC_RUN_ID", "j1"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                {"TORCHELASTIC_ERROR_FILE", "/logs/attempt_5/error_3.json"},
                                {"OMP_NUM_THREADS", "8"},
                                {"MUSTER_JOB_ID", "j1"},
                                {"MUSTER_ATTEMPT", "5"},
                                {"MUSTER_NODE_ID", "1"},
                                {"MUSTER_SOCKET", "/run/agent.sock"}};
  EXPECT_EQ(Given().of(1), expected);
}

TEST(EnvironmentOfAWorker, NamesTheTraceOnlyInAJobWithTracing) {
  Given given;
  given.node.inherited["MUSTER_TRACE_FILE"] = "/outer/job/trace.json";
  EXPECT_THAT(given.of(1), Not(Contains(testing::Key("MUSTER_TRACE_FILE"))));
  given.job.trace = true;
  EXPECT_THAT(given.of(1), Contains(Pair("MUSTER_TRACE_FILE", "/logs/attempt_5/rank_3/trace.json")));
}

TEST(EnvironmentOfAWorker, KeepsTheUsersSettings) {
  Given given;
  given.node.inherited["OMP_NUM_THREADS"] = "5";
  given.node.inherited["HOME"] = "/elsewhere";
  given.job.environment = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}, {"HOME", "/home/b"}, {"RANK", "77"}};
  const Environment environment = given.of(0);
  EXPECT_THAT(environment, Contains(Pair("OMP_NUM_THREADS", "5")));
  EXPECT_THAT(environment, Contains(Pair("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")));
  EXPECT_THAT(environment, Contains(Pair("HOME", "/home/b")));
  EXPECT_THAT(environment, Contains(Pair("RANK", "2")));
}

TEST(EnvironmentOfAWorker, NamesTheNcclVariablesThatTheAgentHasChosenInAJobWithGpus) {
  Given given;
  given.node.inherited["MUSTER_CHOSEN"] = "of an outer job";
  EXPECT_THAT(given.of(0), Not(Contains(testing::Key("MUSTER_CHOSEN"))));
  given.job.use_gpus = true;
  given.node.interface = "eth1";
  EXPECT_EQ(given.of(0).at("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"), "1000");
  EXPECT_EQ(given.of(1).at("TORCH_FR_DUMP_TEMP_FILE"), "/logs/attempt_5/rank_3/flight_recorder.");
  EXPECT_EQ(given.of(0).at("MUSTER_CHOSEN"),
            "NCCL_SOCKET_IFNAME,TORCH_NCCL_ASYNC_ERROR_HANDLING,TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC");
  given.job.environment["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  given.node.inherited["NCCL_SOCKET_IFNAME"] = "ib0";
  given.job.inherited["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] = "5";
  given.job.environment["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = "/tmp/mine";
  EXPECT_THAT(given.of(0), Not(Contains(testing::Key("TORCH_FR_DUMP_TEMP_FILE"))));
  EXPECT_THAT(given.of(0), Not(Contains(testing::Key("MUSTER_CHOSEN"))));
}

TEST(EnvironmentOfAWorker, LeavesAVariableOfNcclThatTheUserHasSetByItsNewerName) {
  Given given;
  given.job.use_gpus = true;
  given.node.inherited["TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC"] = "20000";
  EXPECT_THAT(given.of(0), Not(Contains(testing::Key("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"))));
  EXPECT_EQ(given.of(0).at("MUSTER_CHOSEN"), "TORCH_NCCL_ASYNC_ERROR_HANDLING");
}

TEST(EnvironmentOfAWorker, SharesTheCoresOfTheMachine) {
  Given given;
  given.plan.agents_on_host = 2;
  EXPECT_THAT(given.of(0), Contains(Pair("OMP_NUM_THREADS", "4")));
  given.node.core_count = 2;
  EXPECT_THAT(given.of(0), Contains(Pair("OMP_NUM_THREADS", "1")));
}

TEST(EnvironmentOfAWorker, LetsTheWorkerHostTheStoreWhenTheAgentDoesNot) {
  Given given;
  given.job.store_on_agent = false;
  EXPECT_THAT(given.of(0), Contains(Pair("TORCHELASTIC_USE_AGENT_STORE", "False")));
}

TEST(EnvironmentOfAWorker, DoesNotPassOnTheVariablesOfAnOuterJob) {
  Given given;
  given.node.inherited["MUSTER_CHECKPOINT_DIR"] = "/outer";
  given.node.inherited["MUSTER_RESUME_STEP"] = "9";
  EXPECT_THAT(given.of(0), Not(Contains(Pair("MUSTER_CHECKPOINT_DIR", "/outer"))));
  EXPECT_THAT(given.of(0), Not(Contains(Pair("MUSTER_RESUME_STEP", "9"))));
  given.job.checkpoint_directory = "/inner";
  given.start.resume_step = 400;
  EXPECT_THAT(given.of(0), Contains(Pair("MUSTER_CHECKPOINT_DIR", "/inner")));
  EXPECT_THAT(given.of(0), Contains(Pair("MUSTER_RESUME_STEP", "400")));
}

TEST(EnvironmentOfAWorker, InAnMpiJobHasNoVariablesOfAnOuterMpiLauncher) {
  for (const wire::Mpi kind : {wire::Mpi::kPmix, wire::Mpi::kPmi, wire::Mpi::kNone}) {
    Given given;
    given.node.mpi.kind = kind;
    given.node.inherited = {
        {"PMIX_SERVER_URI3", "pmix-server.1"}, {"SLURM_STEP_ID", "0"}, {"PMIX_MCA_gds", "hash"}};
    given.job.inherited["PMI_FD"] = "7";
    given.job.inherited["OMPI_MCA_ess"] = "slurm";
    given.job.inherited["OMPI_MCA_btl"] = "tcp,self";
    given.job.inherited["SLURM_JOB_ID"] = "4711";
    given.job.environment["PMI_DEBUG"] = "1";
    const Environment environment = given.of(0);
    for (const char* name : {"PMIX_SERVER_URI3", "SLURM_STEP_ID", "PMI_FD", "OMPI_MCA_ess"})
      EXPECT_EQ(environment.contains(name), kind == wire::Mpi::kNone) << name;
    for (const char* name : {"PMIX_MCA_gds", "OMPI_MCA_btl", "SLURM_JOB_ID", "PMI_DEBUG"})
      EXPECT_TRUE(environment.contains(name)) << name << " is the user's";
  }
}

TEST(EnvironmentOfAWorker, GivesAgentsOfOneMachineDisjointGpus) {
  Given given;
  given.job.use_gpus = true;
  EXPECT_THAT(given.of(0), Not(Contains(testing::Key("CUDA_VISIBLE_DEVICES"))));
  given.plan.agents_on_host = 2;
  EXPECT_THAT(given.of(0), Contains(Pair("CUDA_VISIBLE_DEVICES", "0,1")));
  given.plan.agent_on_host = 1;
  EXPECT_THAT(given.of(0), Contains(Pair("CUDA_VISIBLE_DEVICES", "2,3")));
  given.node.inherited["CUDA_VISIBLE_DEVICES"] = "4,GPU-a,6,7";
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "6,7")));
  given.plan.agent_on_host = 0;
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "4,GPU-a")));
}

TEST(EnvironmentOfAWorker, HasThePythonModuleAfterTheUsersOwnPaths) {
  Given given;
  EXPECT_THAT(given.of(0), Not(Contains(testing::Key("PYTHONPATH"))));
  given.node.python_module = "/run/python.zip";
  EXPECT_THAT(given.of(0), Contains(Pair("PYTHONPATH", "/run/python.zip")));
  given.node.inherited["PYTHONPATH"] = "/mine:/yours";
  EXPECT_THAT(given.of(0), Contains(Pair("PYTHONPATH", "/mine:/yours:/run/python.zip")));
  given.job.environment["PYTHONPATH"] = "";
  EXPECT_THAT(given.of(0), Contains(Pair("PYTHONPATH", "/run/python.zip")));
}

TEST(EnvironmentOfAWorker, HasTheRunIdThatWasGiven) {
  Given given;
  given.job.run_id = "../a b";
  EXPECT_THAT(given.of(0), Contains(Pair("TORCHELASTIC_RUN_ID", "../a b")));
  EXPECT_THAT(given.of(0), Contains(Pair("MUSTER_JOB_ID", "j1")));
}

TEST(EnvironmentOfAWorker, ShowsOneGpuOfRocmsListIfLocalRanksAreVirtual) {
  Given given;
  given.job.virtual_local_rank = true;
  given.node.inherited["CUDA_VISIBLE_DEVICES"] = "4,5";
  given.node.inherited["HIP_VISIBLE_DEVICES"] = "6, 7";
  EXPECT_THAT(given.of(1), Contains(Pair("HIP_VISIBLE_DEVICES", "7")));
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "7")));

  given.job.use_gpus = true;
  given.plan.agents_on_host = 2;
  given.plan.agent_on_host = 1;
  given.node.inherited["HIP_VISIBLE_DEVICES"] = "4,5,6,7";
  EXPECT_THAT(given.of(0), Contains(Pair("HIP_VISIBLE_DEVICES", "6")))
      << "the second agent's slice begins there";
  given.job.use_gpus = false;

  given.job.environment["HIP_VISIBLE_DEVICES"] = "";
  EXPECT_THAT(given.of(1), Contains(Pair("HIP_VISIBLE_DEVICES", "")));
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "5")));
}

TEST(EnvironmentOfAWorker, ShowsOneGpuAsTheFirstIfLocalRanksAreVirtual) {
  Given given;
  given.job.virtual_local_rank = true;
  EXPECT_THAT(given.of(1), Contains(Pair("LOCAL_RANK", "0")));
  EXPECT_THAT(given.of(1), Contains(Pair("MUSTER_LOCAL_RANK", "1")));
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "1")));
  EXPECT_THAT(given.of(1), Contains(Pair("RANK", "3")));
  given.node.inherited["CUDA_VISIBLE_DEVICES"] = "4, GPU-a,6,7";
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-a")));
  EXPECT_EQ(common_environment(given.node, given.job, given.plan, given.start).count("CUDA_VISIBLE_DEVICES"),
            0U)
      << "it is each rank's own";
  given.job.use_gpus = true;
  given.plan.agents_on_host = 2;
  given.plan.agent_on_host = 1;
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "7")));
  given.job.environment["CUDA_VISIBLE_DEVICES"] = "";
  given.job.use_gpus = false;
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "")));
}

TEST(EnvironmentOfAWorker, SharesTheGpusOfAMachineThatHasFewerThanWorkers) {
  Given given;
  given.job.use_gpus = true;
  given.job.share_gpus = true;
  given.node.gpu_count = 4;
  EXPECT_THAT(given.of(1), Not(Contains(testing::Key("NCCL_HOSTID")))) << "each has its own";
  EXPECT_THAT(given.of(1), Contains(Pair("LOCAL_RANK", "1")));
  given.plan.agents_on_host = 2;
  given.plan.agent_on_host = 1;
  given.node.gpu_count = 3;
  EXPECT_THAT(given.of(0), Contains(Pair("CUDA_VISIBLE_DEVICES", "2")));
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "0")));
  EXPECT_THAT(given.of(1), Contains(Pair("LOCAL_RANK", "0")));
  EXPECT_THAT(given.of(1), Contains(Pair("MUSTER_LOCAL_RANK", "1")));
  EXPECT_THAT(given.of(1), Contains(Pair("NCCL_HOSTID", "j1-3")));
  given.node.inherited["CUDA_VISIBLE_DEVICES"] = "5";
  given.job.environment["NCCL_HOSTID"] = "mine";
  EXPECT_THAT(given.of(1), Contains(Pair("CUDA_VISIBLE_DEVICES", "5")));
  EXPECT_THAT(given.of(1), Contains(Pair("NCCL_HOSTID", "mine")));
}

TEST(ArgumentsOf, ReplacesLocalRank) {
  EXPECT_THAT(
      arguments_of({"p", "--r=${local_rank}", "${local_rank}${local_rank}", "$local_rank"}, LocalRank(3)),
      ElementsAre("p", "--r=3", "33", "$local_rank"));
}

TEST(GpuOf, IsTheEntryOfTheListAtTheLocalRank) {
  EXPECT_EQ(gpu_of({}, LocalRank(3)), 3U);
  const Environment environment{{"CUDA_VISIBLE_DEVICES", "4,GPU-1a2b,0"}};
  EXPECT_EQ(gpu_of(environment, LocalRank(0)), 4U);
  EXPECT_EQ(gpu_of(environment, LocalRank(1)), std::nullopt);
  EXPECT_EQ(gpu_of(environment, LocalRank(2)), 0U);
  EXPECT_EQ(gpu_of(environment, LocalRank(3)), std::nullopt);
}

}  // namespace
}  // namespace muster::agent
