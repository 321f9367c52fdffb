#include "agent/core/start/template_spec.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TemplateSpecTest : public testing::Test {
 protected:
  TemplateSpecTest() {
    job_.command = {"train", "--lr", "1"};
    job_.job_id = "job";
    job_.warm = wire::Warm::kAuto;
    program_.has_note = true;
    program_.path = "/bin/train";
    plan_.local_world_size = 4;
    plan_.world_size = 4;
    plan_.node_count = 1;
    node_.core_count = 8;
  }
  auto wanted() const { return wanted_template(program_, node_, job_, plan_); }
  Environment environment_of(int rank) const {
    Environment environment = rank_environment(node_, job_, plan_, LocalRank(rank));
    environment.merge(common_environment(node_, job_, plan_, {"127.0.0.1", 29500, 7}));
    return environment;
  }
  static auto order_of(const TemplateSpec& spec, const std::vector<std::string>& arguments,
                       const Environment& environment, bool takes_arguments = false) {
    return order_for(spec, takes_arguments, arguments, environment);
  }
  void use_python(std::vector<std::string> command) {
    job_.command = std::move(command);
    job_.warm = wire::Warm::kOn;
    program_ = {.path = "/usr/bin/python3.11", .file = {}, .python_runner = "/lib/runner.py"};
  }

  wire::JobSpec job_;
  wire::PrepareAttempt plan_;
  NodeContext node_;
  ProgramFacts program_;
};

TEST_F(TemplateSpecTest, IsUsedForTheNoteOrTheUsersWish) {
  EXPECT_TRUE(wanted());
  program_.has_note = false;
  EXPECT_EQ(wanted().error(), "");
  job_.warm = wire::Warm::kOn;
  EXPECT_TRUE(wanted());
  program_.has_note = true;
  job_.warm = wire::Warm::kOff;
  EXPECT_EQ(wanted().error(), "");
}

TEST_F(TemplateSpecTest, HasOnlyWhatAllRanksAndAttemptsShare) {
  job_.environment["OWN"] = "value";
  node_.inherited["RANK"] = "17";  // from an outer job
  const auto spec = wanted();
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->environment.at("OWN"), "value");
  EXPECT_EQ(spec->environment.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(spec->environment.at("MUSTER_JOB_ID"), "job");
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "MUSTER_ATTEMPT",
                           "MUSTER_RESUME_STEP", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_RESTART_COUNT"})
    EXPECT_FALSE(spec->environment.contains(name)) << name;
}

TEST_F(TemplateSpecTest, StaysTheSameOverAttemptsUntilTheNumberOfWorkersChanges) {
  const auto first = wanted();
  node_.attempt = Attempt(9);
  plan_.restart_count = 3;
  plan_.first_rank = Rank(8);
  EXPECT_EQ(*wanted(), *first);
  plan_.local_world_size = 2;
  EXPECT_NE(*wanted(), *first) << "OMP_NUM_THREADS differs";
  plan_.local_world_size = 4;
  program_.file.modified_ns = 1;
  EXPECT_NE(*wanted(), *first);
}

TEST_F(TemplateSpecTest, EachRanksEnvironmentIsTheTemplatesPlusItsChanges) {
  node_.inherited = {{"PATH", "/bin"}, {"RANK", "17"}};
  const auto spec = wanted();
  ASSERT_TRUE(spec);
  for (int rank = 0; rank < 4; ++rank) {
    Environment forked = spec->environment;
    const auto order = order_of(*spec, job_.command, environment_of(rank));
    ASSERT_TRUE(order) << order.error();
    EXPECT_FALSE(order->arguments);
    for (const std::string& change : order->environment) {
      const std::size_t equals = change.find('=');
      if (equals == std::string::npos) {
        forked.erase(change);
      } else {
        forked[change.substr(0, equals)] = change.substr(equals + 1);
      }
    }
    EXPECT_EQ(forked, environment_of(rank));
  }
}

TEST_F(TemplateSpecTest, ARankThatDiffersInAVariableReadWhileLoadingIsExecuted) {
  job_.environment["DNNL_VERBOSE"] = "1";
  const auto spec = wanted();
  Environment environment = environment_of(1);
  EXPECT_TRUE(order_of(*spec, job_.command, environment));
  environment["OMP_NUM_THREADS"] = "7";
  EXPECT_THAT(order_of(*spec, job_.command, environment).error(), HasSubstr("OMP_NUM_THREADS"));
  environment = environment_of(1);
  environment["LD_PRELOAD"] = "/lib/spy.so";
  EXPECT_THAT(order_of(*spec, job_.command, environment).error(), HasSubstr("LD_PRELOAD"));
  environment = environment_of(1);
  environment.erase("DNNL_VERBOSE");
  EXPECT_THAT(order_of(*spec, job_.command, environment).error(), HasSubstr("DNNL_VERBOSE"));
}

TEST_F(TemplateSpecTest, ARankWithOtherArgumentsIsExecuted) {
  const auto spec = wanted();
  EXPECT_THAT(order_of(*spec, {"train", "--lr", "2"}, environment_of(0)).error(), HasSubstr("arguments"));
  job_.command = {"train", "--shard", "${local_rank}"};
  EXPECT_THAT(wanted().error(), HasSubstr("arguments differ"));
  plan_.local_world_size = 1;
  EXPECT_TRUE(wanted());
}

TEST_F(TemplateSpecTest, ATemplateThatTakesArgumentsForksARankWithOthers) {
  const auto spec = wanted();
  const auto order = order_of(*spec, {"train", "--lr", "2", "--fast"}, environment_of(0), true);
  ASSERT_TRUE(order) << order.error();
  EXPECT_THAT(order->arguments, testing::Optional(ElementsAre("--lr", "2", "--fast")));
  EXPECT_FALSE(order_of(*spec, {"nice", "train", "--lr", "2"}, environment_of(0), true)) << "a wrapper";
  EXPECT_FALSE(order_of(*spec, {}, environment_of(0), true));
  program_.has_note = false;
  job_.warm = wire::Warm::kOn;
  EXPECT_FALSE(order_of(*wanted(), {"train", "--lr", "2"}, environment_of(0), true)) << "perhaps a shell";
  use_python({"python3", "-u", "train.py", "--lr", "1"});
  const auto python = wanted();
  const auto words = [&](const std::vector<std::string>& command) {
    const auto ordered = order_of(*python, command, environment_of(0), true);
    return ordered ? ordered->arguments.value_or(std::vector<std::string>{"the template's"})
                   : std::vector<std::string>{ordered.error()};
  };
  EXPECT_THAT(words({"python3", "-u", "train.py", "--lr", "2"}), ElementsAre("train.py", "--lr", "2"));
  EXPECT_THAT(words({"python3", "-u", "train.py", "--lr", "1"}), ElementsAre("the template's"));
  EXPECT_THAT(words({"python3", "train.py", "--lr", "2"}), ElementsAre(HasSubstr("arguments"))) << "no -u";
}

// The trials of a sweep.
TEST_F(TemplateSpecTest, ServesTheNextJobIfOnlyArgumentsAndTheJobsOwnVariablesDiffer) {
  node_.keeps_template = true;
  const auto begin_trial = [this](const std::string& number) {
    job_.job_id = "trial-" + number;
    job_.command = {"train", "--lr", number};
    job_.checkpoint_directory = "/sweep/" + number;
    job_.environment = {{"MUSTER_PARAM_LR", number},
                        {"MUSTER_TRIAL_DIR", "/sweep/" + number},
                        {"CUDA_VISIBLE_DEVICES", number}};
    node_.socket_path = "/tmp/" + number;
  };
  begin_trial("1");
  const auto first = wanted();
  ASSERT_TRUE(first);
  for (const char* name : {"MUSTER_PARAM_LR", "MUSTER_TRIAL_DIR", "MUSTER_CHECKPOINT_DIR", "MUSTER_SOCKET",
                           "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_RUN_ID"})
    EXPECT_FALSE(first->environment.contains(name)) << name << ": code before init() would see trial 1's";
  begin_trial("2");
  EXPECT_TRUE(can_serve(*first, *wanted(), true));
  EXPECT_FALSE(can_serve(*first, *wanted(), false)) << "its ranks would run with trial 1's arguments";
  const auto order = order_of(*first, job_.command, environment_of(0), true);
  ASSERT_TRUE(order) << order.error();
  for (const char* change : {"MUSTER_PARAM_LR=2", "MUSTER_JOB_ID=trial-2", "MUSTER_CHECKPOINT_DIR=/sweep/2",
                             "MUSTER_SOCKET=/tmp/2", "CUDA_VISIBLE_DEVICES=2"})
    EXPECT_THAT(order->environment, testing::Contains(change));
  job_.environment["OWN"] = "2";
  EXPECT_FALSE(can_serve(*first, *wanted(), true)) << "code before init() may have read it";
}

TEST_F(TemplateSpecTest, PythonGetsItsRunnerAndOneThreadOfOpenBlas) {
  use_python({"python3", "-u", "train.py", "--lr", "1"});
  const auto spec = wanted();
  ASSERT_TRUE(spec);
  EXPECT_THAT(spec->arguments, ElementsAre("python3", "-u", "/lib/runner.py", "train.py", "--lr", "1"));
  EXPECT_EQ(spec->environment.at("OPENBLAS_NUM_THREADS"), "1");
  const auto order = order_of(*spec, job_.command, environment_of(0));
  ASSERT_TRUE(order) << order.error();
  EXPECT_THAT(order->environment, testing::Contains("OPENBLAS_NUM_THREADS")) << "the rank must not see it";
}

TEST_F(TemplateSpecTest, PythonWithoutRunnerOrScriptIsExecutedWithAReason) {
  use_python({"python3", "train.py"});
  program_.python_runner.clear();
  EXPECT_THAT(wanted().error(), HasSubstr("not installed"));
  use_python({"python3", "-c", "print()"});
  EXPECT_THAT(wanted().error(), HasSubstr("neither a script nor a module"));
}

TEST(PythonTemplateCommand, PutsTheRunnerBeforeTheScriptOrModule) {
  const auto of = [](std::vector<std::string> command) { return python_template_command(command, "R"); };
  EXPECT_THAT(of({"python3", "t.py", "-x"}), ElementsAre("python3", "R", "t.py", "-x"));
  EXPECT_THAT(of({"python3", "-u", "-X", "dev", "-m", "pkg.train", "a"}),
              ElementsAre("python3", "-u", "-X", "dev", "R", "-m", "pkg.train", "a"));
  EXPECT_THAT(of({"python3", "-W", "error", "t.py"}), ElementsAre("python3", "-W", "error", "R", "t.py"));
  EXPECT_THAT(of({"python3"}), IsEmpty());
  EXPECT_THAT(of({"python3", "-u"}), IsEmpty());
  EXPECT_THAT(of({"python3", "-cprint()"}), IsEmpty());
  EXPECT_THAT(of({"python3", "-"}), IsEmpty());
}

}  // namespace
}  // namespace muster::agent
