#include "launcher/core/settings/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launcher/core/settings/gpu_options.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Surroundings kPlanHere{.environment = {}, .working_directory = "/work", .hostname = "box"};
const Machine kNoGpus{.core_count = 8, .gpu_count = 0, .gpu_note = "no driver"};
const Machine kFourGpus{.core_count = 8, .gpu_count = 4, .gpu_note = ""};

Options options(int nodes, WorkerCount workers, Device device = Device::kAuto) {
  Options result;
  result.nodes = nodes;
  result.workers_per_node = workers;
  result.device = device;
  result.log_directory = "/logs";
  result.program = {"train"};
  return result;
}

std::int32_t count(int nodes, WorkerCount::Kind kind, const Machine& machine, Device device = Device::kAuto) {
  const auto plan = make_plan(options(nodes, {kind, 1}, device), machine, kPlanHere, "job");
  return plan ? plan->nodes.front().worker_count : -1;
}

std::vector<std::string> command(std::vector<std::string> program, bool module = false,
                                 bool no_python = false, Environment environment = {}) {
  Options asked = options(1, {});
  asked.program = std::move(program);
  asked.module = module;
  asked.no_python = no_python;
  Surroundings here = kPlanHere;
  here.environment = std::move(environment);
  return make_plan(asked, kNoGpus, here, "job")->job.command;
}

TEST(Plan, RefusesACommandThatIsTooLongForTheAgents) {
  Options asked = options(1, {});
  asked.program = std::vector<std::string>(50, std::string(100'000, 'x'));
  auto plan = make_plan(asked, kNoGpus, kPlanHere, "job");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message(),
            "the command and the variables of --env take 5000250 bytes (allowed: 3932160): "
            "pass long values in a file");
  asked.program.resize(20);
  EXPECT_TRUE(make_plan(asked, kNoGpus, kPlanHere, "job"));
  asked.added["LONG"] = std::string(3'000'000, 'x');
  EXPECT_FALSE(make_plan(asked, kNoGpus, kPlanHere, "job"));
}

TEST(Plan, NumbersRanksNodeByNode) {
  const auto plan = make_plan(options(3, {WorkerCount::Kind::kNumber, 2}), kNoGpus, kPlanHere, "job");
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->world_size(), 6);
  EXPECT_EQ(plan->nodes[2].first_rank, Rank(4));
  EXPECT_EQ(plan->job.log_directory, "/logs/job");
}

TEST(Plan, DividesTheMachineAmongItsNodes) {
  EXPECT_EQ(count(2, WorkerCount::Kind::kAuto, kFourGpus), 2);
  EXPECT_EQ(count(2, WorkerCount::Kind::kGpu, kFourGpus), 2);
  EXPECT_EQ(count(2, WorkerCount::Kind::kAuto, kNoGpus), 4);
  EXPECT_EQ(count(2, WorkerCount::Kind::kCpu, kFourGpus), 4);
  EXPECT_EQ(count(16, WorkerCount::Kind::kCpu, kFourGpus), 1);
  EXPECT_EQ(count(1, WorkerCount::Kind::kGpu, kNoGpus), -1);
}

TEST(Plan, RefusesMoreWorkersThanGpusAndNamesBothNumbers) {
  const auto plan =
      make_plan(options(2, {WorkerCount::Kind::kNumber, 4}, Device::kCuda), kFourGpus, kPlanHere, "job");
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message(), HasSubstr("there are 8 workers and 4 GPUs"));
  EXPECT_THAT(make_plan(options(1, {}, Device::kCuda), kNoGpus, kPlanHere, "job").error().message(),
              HasSubstr("0 GPUs (no driver)"));
}

TEST(Plan, UsesGpusWhereEachWorkerCanHaveOne) {
  EXPECT_TRUE(
      make_plan(options(2, {WorkerCount::Kind::kNumber, 2}), kFourGpus, kPlanHere, "job")->job.use_gpus);
  EXPECT_FALSE(
      make_plan(options(2, {WorkerCount::Kind::kNumber, 4}), kFourGpus, kPlanHere, "job")->job.use_gpus);
  const auto hidden =
      make_plan(options(2, {WorkerCount::Kind::kNumber, 2}, Device::kCpu), kFourGpus, kPlanHere, "job");
  EXPECT_FALSE(hidden->job.use_gpus);
  EXPECT_EQ(hidden->job.environment.at("CUDA_VISIBLE_DEVICES"), "");
}

TEST(Plan, LetsWorkersShareGpus) {
  Options asked = options(2, {WorkerCount::Kind::kNumber, 4});
  auto plan = make_plan(asked, kFourGpus, kPlanHere, "job");
  EXPECT_EQ(gpu_notice(*plan, kFourGpus),
            "8 workers and 4 GPUs: workers get no GPU of their own, and each sees all: "
            "give --share-gpus to let them share, or --device cpu to do without");
  EXPECT_EQ(gpu_notice(*plan, kNoGpus), std::nullopt);
  asked.share_gpus = true;
  plan = make_plan(asked, kFourGpus, kPlanHere, "job");
  EXPECT_TRUE(plan->job.use_gpus && plan->job.share_gpus);
  EXPECT_THAT(gpu_notice(*plan, kFourGpus).value_or(""), HasSubstr("8 workers and 4 GPUs: workers share"));
  EXPECT_EQ(make_plan(asked, kNoGpus, kPlanHere, "job").error().message(),
            "--share-gpus: no GPU found on this machine (no driver): leave it out");
  asked.device = Device::kCpu;
  EXPECT_EQ(make_plan(asked, kFourGpus, kPlanHere, "job").error().message(),
            "--share-gpus: --device cpu hides GPUs from workers: give one of them");
}

TEST(Plan, LeavesOutGpusThatOthersFill) {
  Machine machine = kFourGpus;
  machine.gpus_in_use = {{.gpu = 1, .pid = 42, .user = "alice", .mebibyte_count = 61440}};
  Options asked = options(1, {WorkerCount::Kind::kAuto, 1});
  EXPECT_THAT(leave_out_gpus(asked, machine, std::nullopt),
              ElementsAre("GPU 1 is in use: process 42 of alice holds 61440 MiB: "
                          "--gpus-per-node auto leaves it out"));
  EXPECT_EQ(asked.added["CUDA_VISIBLE_DEVICES"], "0,2,3");
  EXPECT_EQ(make_plan(asked, machine, kPlanHere, "job")->world_size(), 3);
  for (const auto& [workers, count] : {std::pair(1, 0), std::pair(2, 1), std::pair(8, 1)}) {
    const auto plan = make_plan(options(1, {WorkerCount::Kind::kNumber, workers}), kFourGpus, kPlanHere, "j");
    EXPECT_EQ(in_use_by_others(machine.gpus_in_use, *plan, kFourGpus, std::nullopt).size(), count) << workers;
  }
}

TEST(Plan, LooksForGpusOnlyWhereTheyMatter) {
  EXPECT_FALSE(needs_gpu_count(options(1, {WorkerCount::Kind::kNumber, 1}, Device::kCpu)));
  EXPECT_FALSE(needs_gpu_count(options(1, {WorkerCount::Kind::kAuto, 1}, Device::kCpu)));
  EXPECT_TRUE(needs_gpu_count(options(1, {WorkerCount::Kind::kGpu, 1}, Device::kCpu)));
  EXPECT_TRUE(needs_gpu_count(options(1, {WorkerCount::Kind::kNumber, 1}, Device::kCuda)));
}

TEST(Plan, RunsPythonScriptsAndModules) {
  EXPECT_THAT(command({"train.py", "x"}), ElementsAre("python3", "-u", "train.py", "x"));
  EXPECT_THAT(command({"pkg.train", "x"}, true), ElementsAre("python3", "-u", "-m", "pkg.train", "x"));
  EXPECT_THAT(command({"train.py"}, false, true), ElementsAre("train.py"));
  EXPECT_THAT(command({"train.py"}, false, false, {{"PYTHON_EXEC", "/opt/python"}}),
              ElementsAre("/opt/python", "-u", "train.py"));
  EXPECT_THAT(command({"train"}), ElementsAre("train"));
}

TEST(Plan, RunsAnyFileAsAScriptByItsPath) {
  Options asked = options(1, {});
  asked.run_path = true;
  asked.no_python = true;
  asked.program = {"/x/script", "a"};
  EXPECT_THAT(make_plan(asked, kNoGpus, kPlanHere, "job")->job.command,
              ElementsAre("python3", "-u", "/x/script", "a"));
}

TEST(Plan, RefusesVirtualLocalRanksWithoutAGpuForEach) {
  Options asked = options(1, {WorkerCount::Kind::kNumber, 3});
  asked.virtual_local_rank = true;
  Surroundings here = kPlanHere;
  here.environment["CUDA_VISIBLE_DEVICES"] = "0,1";
  EXPECT_EQ(make_plan(asked, kNoGpus, here, "job").error().message(),
            "--virtual-local-rank: CUDA_VISIBLE_DEVICES=0,1 names 2 GPUs for 3 workers: start fewer, or use "
            "--device cpu");
  here.environment["CUDA_VISIBLE_DEVICES"] = "0,1,2";
  EXPECT_TRUE(make_plan(asked, kNoGpus, here, "job")->job.virtual_local_rank);
  here.environment["HIP_VISIBLE_DEVICES"] = "0";
  EXPECT_THAT(make_plan(asked, kNoGpus, here, "job").error().message(),
              HasSubstr("HIP_VISIBLE_DEVICES=0 names 1 GPU for 3 workers"));
}

TEST(Plan, HidesStreamsThatAreRedirectedAndNotTeed) {
  Options asked = options(1, {WorkerCount::Kind::kNumber, 3});
  asked.redirects = "3";
  asked.tee = "0:1";
  EXPECT_THAT(make_plan(asked, kNoGpus, kPlanHere, "job")->job.redirects, ElementsAre(2, 3, 3));
  asked.redirects = "";
  asked.shown_local_ranks = {1};
  EXPECT_THAT(make_plan(asked, kNoGpus, kPlanHere, "job")->job.redirects, ElementsAre(3, 0, 3));
}

TEST(Plan, RefusesAFilterThatShowsNothing) {
  Options asked = options(2, {WorkerCount::Kind::kNumber, 2});
  asked.shown_local_ranks = {1, 9};
  EXPECT_THAT(make_plan(asked, kNoGpus, kPlanHere, "job")->job.redirects, ElementsAre(3, 0));
  asked.shown_local_ranks = {2, 9};
  EXPECT_EQ(make_plan(asked, kNoGpus, kPlanHere, "job").error().message(),
            "--local-ranks-filter: no node has local rank 2 or 9: give 0 to 1");
}

TEST(Plan, RefusesAbsurdSizesInsteadOfOverflowing) {
  EXPECT_FALSE(make_plan(options(2'000'000'000, {WorkerCount::Kind::kNumber, 2'000'000'000}), kNoGpus,
                         kPlanHere, "job"));
}

TEST(ThreadNotice, WarnsOfFarMoreWorkersThanCores) {
  const auto notice = [](std::int32_t workers) {
    const auto plan =
        make_plan(options(2, {WorkerCount::Kind::kNumber, workers / 2}), kNoGpus, kPlanHere, "job");
    return core_notice(*plan, kNoGpus, {{"OMP_NUM_THREADS", "1"}});
  };
  EXPECT_EQ(notice(32), std::nullopt);
  EXPECT_EQ(notice(34), "34 workers share 8 cores: start and steps will be slow");
}

TEST(ThreadNotice, IsGivenOnlyIfNobodySetTheVariable) {
  const auto plan = make_plan(options(2, {WorkerCount::Kind::kNumber, 2}), kNoGpus, kPlanHere, "job");
  EXPECT_THAT(core_notice(*plan, kNoGpus, {}).value_or(""),
              HasSubstr("OMP_NUM_THREADS is 2 for each worker (8 cores, 4 workers)"));
  EXPECT_EQ(core_notice(*plan, kNoGpus, {{"OMP_NUM_THREADS", "1"}}), std::nullopt);
  EXPECT_EQ(core_notice(*make_plan(options(1, {}), kNoGpus, kPlanHere, "job"), kNoGpus, {}), std::nullopt);
}

TEST(PlanText, NamesCommandRanksAndPlaces) {
  Options asked = options(2, {WorkerCount::Kind::kNumber, 2});
  asked.program = {"train", "two words"};
  const std::string text = plan_as_text(*make_plan(asked, kNoGpus, kPlanHere, "job-7"));
  for (const char* part : {"job-7", "train 'two words'", "/logs/job-7", "node1", "2-3"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Plan, AddsSpareNodesAfterTheOthers) {
  Options asked = options(2, {WorkerCount::Kind::kNumber, 2});
  asked.min_nodes = 1;
  asked.spare_nodes = 1;
  const auto plan = make_plan(asked, kNoGpus, kPlanHere, "job");
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->world_size(), 4) << "spares have no ranks";
  EXPECT_EQ(plan->agent_count(), 3);
  const std::string text = plan_as_text(*plan);
  EXPECT_THAT(text, HasSubstr("2, down to 1"));
  EXPECT_THAT(text, HasSubstr("node2        -            spare"));
  const auto json = nlohmann::json::parse(plan_as_json(*plan));
  EXPECT_EQ(json.at("min_nodes"), 1);
  EXPECT_EQ(json.at("spare_nodes"), 1);
}

TEST(PlanText, IsAlsoJson) {
  const auto json = nlohmann::json::parse(
      plan_as_json(*make_plan(options(2, {WorkerCount::Kind::kNumber, 2}), kNoGpus, kPlanHere, "job-7")));
  EXPECT_EQ(json.at("world_size"), 4);
  EXPECT_EQ(json.at("nodes").at(1).at("first_rank"), 2);
}

TEST(PlanText, ShowsNcclVariablesThatTheUserHasNotSet) {
  const Machine gpus{.core_count = 8, .gpu_count = 2, .gpu_note = ""};
  const auto plan_with = [&](const Environment& environment) {
    Surroundings here = kPlanHere;
    here.environment = environment;
    return *make_plan(options(1, {WorkerCount::Kind::kGpu, 0}), gpus, here, "job-7");
  };
  const Plan plan = plan_with({});
  EXPECT_THAT(plan_as_text(plan),
              AllOf(HasSubstr("NCCL         TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n"),
                    HasSubstr("NCCL         TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=1000\n")));
  EXPECT_EQ(nlohmann::json::parse(plan_as_json(plan)).at("chosen_environment"),
            nlohmann::json(
                {{"TORCH_FR_DUMP_TEMP_FILE", "/logs/job-7/attempt_(number)/rank_(rank)/flight_recorder."},
                 {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                 {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000"}}));
  const Plan users = plan_with({{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}});
  EXPECT_THAT(plan_as_text(users), Not(HasSubstr("ERROR_HANDLING")));
  const Plan newer = plan_with({{"TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC", "20000"}});
  EXPECT_THAT(plan_as_text(newer), Not(HasSubstr("DUMP_MILSEC")));
  const Plan cpus = *make_plan(options(1, {WorkerCount::Kind::kNumber, 2}), kNoGpus, kPlanHere, "job-7");
  EXPECT_THAT(plan_as_text(cpus), Not(HasSubstr("NCCL")));
}

}  // namespace
}  // namespace muster::launcher
