// `launch sweep ask`, `tell`, `import` and `export`: other programs that run trials, and Optuna's files.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/checkpoint/manifest.h"
#include "tests/process/launch_sweep_fixture.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class LaunchSweepExchange : public LaunchSweep {};

// Another program runs the trials. Optuna's file brings the sweep back.
TEST_F(LaunchSweepExchange, AsksAndIsToldAndGoesToOptunaAndBack) {
  ASSERT_EQ(launch(sweep_of("true", {"--space", "x=choice:1:2:3", "--search", "grid", "--scheduler",
                                     "asha-stop", "--max-steps", "4", "--eta", "2", "--parallel", "0"}))
                .exit_code,
            0);
  const auto tell = [&](const Words& words) { return launch(with({"sweep", "tell", directory}, words)).out; };
  const json first = json::parse(launch({"sweep", "ask", directory, "--json"}).out);
  const json second = json::parse(launch({"sweep", "ask", directory, "--json"}).out);
  EXPECT_NE(first.at("trial"), second.at("trial"));
  const std::string a = std::to_string(first.at("trial").get<int>()),
                    b = std::to_string(second.at("trial").get<int>());
  EXPECT_EQ(tell({a, "loss=1"}), "go on\n") << "of step 1";
  EXPECT_EQ(tell({a, "loss=1", "--step", "1"}), "go on\n") << "a repeated report is ignored";
  EXPECT_EQ(shown(std::stoi(a)).at("measured").at("loss").size(), 1U);
  EXPECT_THAT(tell({b, "loss=2", "--step", "1"}), testing::StartsWith("stop: "));
  EXPECT_EQ(launch({"sweep", "tell", directory, b, "loss=2"}).exit_code, 2) << "it has ended";
  EXPECT_EQ(launch({"sweep", "tell", directory, a, "=2"}).exit_code, 2) << "no name";
  EXPECT_EQ(tell({a, "loss=0.5", "--step", "3", "--state", "finished"}), "trial " + a + " is finished\n");

  const std::string file = scratch / "study.log";
  ASSERT_EQ(launch({"sweep", "export", directory, "-o", file}).exit_code, 0);
  const std::string back = scratch / "back";
  ASSERT_EQ(launch({"sweep", "import", back, file}).exit_code, 0);
  const json all = json::parse(launch({"sweep", "status", back, "--json"}).out).at("trials");
  ASSERT_EQ(all.size(), trials().size());
  EXPECT_EQ(all[first.at("trial").get<std::size_t>()].at("metrics").at("loss"), 0.5);
  EXPECT_EQ(json::parse(launch({"sweep", "best", back, "--json"}).out).at("trial"), first.at("trial"));
  EXPECT_EQ(launch({"sweep", "best", back}).out,
            "trial " + a +
                ": loss=0.5 at step 3\nx=" + std::to_string(first.at("params").at("x").get<int>()) + "\n")
      << "it has no program";
}

// Another program runs trials that pause: it learns with which checkpoint a run goes on.
TEST_F(LaunchSweepExchange, AsksForTheRestOfATrialThatWasPaused) {
  ASSERT_EQ(launch(sweep_of("true", {"--space", "x=choice:1:2:3", "--search", "grid", "--scheduler", "asha",
                                     "--max-steps", "4", "--eta", "2", "--parallel", "0"}))
                .exit_code,
            0);
  EXPECT_EQ(launch({"sweep", "ask", directory}).out, "trial 0 x=1\n");
  EXPECT_THAT(launch({"sweep", "status", directory}).out,
              testing::StartsWith("run by other programs; 1 of 3"));
  const json second = json::parse(launch({"sweep", "ask", directory, "--json"}).out);
  EXPECT_EQ(second.at("run"), 0);
  EXPECT_EQ(second.at("from"), nullptr);
  EXPECT_THAT(launch({"sweep", "tell", directory, "0", "loss=2", "--step", "1"}).out,
              testing::StartsWith("pause"));
  EXPECT_THAT(launch({"sweep", "tell", directory, "1", "loss=1", "--step", "1"}).out,
              testing::StartsWith("pause"));
  EXPECT_EQ(launch({"sweep", "ask", directory}).out,
            "trial 1 x=2\nrun 1 goes on from step 1, with the checkpoints in " + directory +
                "/trials/0001/checkpoints\n");
}

// An imported trial has no checkpoints. So none of the trials that were paused can go on.
TEST_F(LaunchSweepExchange, AnImportedSweepIsOverAndSaysIfItsFileWasCut) {
  ASSERT_EQ(launch(sweep_of("true", {"--space", "x=uniform:0:1", "--trials", "18", "--scheduler", "asha",
                                     "--max-steps", "4", "--parallel", "0"}))
                .exit_code,
            0);
  for (int trial = 0; trial < 18; ++trial) ASSERT_EQ(launch({"sweep", "ask", directory}).exit_code, 0);
  for (int trial = 0; trial < 18; ++trial)
    EXPECT_THAT(launch({"sweep", "tell", directory, std::to_string(trial), "loss=1"}).out,
                testing::StartsWith("pause"));
  const std::string file = scratch / "study.log";
  ASSERT_EQ(launch({"sweep", "export", directory, "-o", file}).exit_code, 0);
  const std::string back = scratch / "back", part = scratch / "part";
  EXPECT_EQ(launch({"sweep", "import", back, file}).err, "");
  EXPECT_THAT(launch({"sweep", "status", back}).out,
              testing::StartsWith("run by other programs; 18 of 18 trials, 18 stopped\n"));
  const Printed asked = launch({"sweep", "ask", back});
  EXPECT_EQ(asked.exit_code, 3) << asked.out;
  EXPECT_EQ(asked.err, "launch: " + back + ": the sweep is over: 18 trials\n");

  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const Printed cut = launch({"sweep", "import", part, file});
  EXPECT_EQ(cut.exit_code, 0);
  EXPECT_EQ(cut.err, "launch: " + file + " ends within a record: line 21 is left out\n");
  EXPECT_THAT(launch({"sweep", "status", part}).out, HasSubstr("; 17 of 17 trials"));
}

TEST_F(LaunchSweepExchange, AsksForATrialThatTakesOverACheckpoint) {
  const std::string given = scratch / "given";
  ASSERT_EQ(launch(sweep_of("true", {"--space", "x=choice:1:2:3:4", "--search", "grid", "--scheduler", "pbt",
                                     "--max-steps", "3", "--parallel", "0", "--checkpoint-dir", given}))
                .exit_code,
            0);
  std::string first;
  for (int trial = 0; trial < 4; ++trial) {
    const Printed answer = launch({"sweep", "ask", directory, "--json"});
    ASSERT_EQ(answer.exit_code, 0) << answer.err;
    if (trial == 0) first = json::parse(answer.out).at("checkpoints");
  }
  ASSERT_THAT(first, testing::MatchesRegex(given + "/sweep-[0-9a-f]+/0000")) << "no other sweep has it";
  const std::string all = first.substr(0, first.rfind('/'));
  std::filesystem::create_directories(first + "/attempts");
  std::ofstream(first + "/attempts/000001.json")
      << R"({"format":1,"attempt":1,"job":"own","host":"elsewhere","resume":null})";
  write_checkpoint(CheckpointDirectory(first), {.step = 7, .attempt = Attempt(1)},
                   {.tensors = {{"w", written_tensor(Dtype::kF32, {4}, 1)}}});
  for (const std::string trial : {"0", "1", "2", "3"})
    launch({"sweep", "tell", directory, trial, "loss=" + trial, "--step", "1"});
  const json asked = json::parse(launch({"sweep", "ask", directory, "--json"}).out);
  EXPECT_EQ(asked.at("trial"), 3);
  EXPECT_EQ(asked.at("run"), 1);
  EXPECT_EQ(asked.at("from"), (json{{"trial", 0}, {"step", 1}}));
  EXPECT_EQ(asked.at("checkpoints"), all + "/0003");
  EXPECT_EQ(json::parse(std::ifstream(directory + "/trials/0003/params.json")), asked.at("params"));
  EXPECT_THAT(launch({"ckpt", "ls", all + "/0003"}).out, HasSubstr("7"));
}

// Trial 0 is the worst one and always the first to report.
TEST_F(LaunchSweepExchange, ReplacesABadTrialThatIsAheadOfTheOthers) {
  ASSERT_EQ(launch(sweep_of("true", {"--space", "x=uniform:1:9", "--trials", "4", "--scheduler", "pbt",
                                     "--max-steps", "3", "--parallel", "0"}))
                .exit_code,
            0);
  for (int trial = 0; trial < 4; ++trial) ASSERT_EQ(launch({"sweep", "ask", directory}).exit_code, 0);
  const auto tell = [&](const std::string& trial, const std::string& value, const std::string& step) {
    return launch({"sweep", "tell", directory, trial, "loss=" + value, "--step", step}).out;
  };
  for (const std::string trial : {"0", "1", "2"}) EXPECT_EQ(tell(trial, "9", "1"), "go on\n");
  EXPECT_EQ(tell("3", "1", "1"), "go on\n");
  EXPECT_EQ(tell("0", "10", "2"), "pause: in the worst quarter at step 2; trial 3 is in the best\n");
  EXPECT_THAT(launch({"sweep", "ask", directory}).out,
              HasSubstr("\nrun 1 goes on from the newest checkpoint of trial 3, "
                        "which had got to step 1, with the checkpoints in " +
                        file_of(0, "checkpoints") + "\n"));
  EXPECT_EQ(shown(0).at("step"), 1) << "the value of step 2 belongs to other parameters";
  EXPECT_EQ(tell("0", "0.5", "2"), "go on\n");
  EXPECT_EQ(shown(0).at("metrics").at("loss"), 0.5);
  const std::string runs = scratch / "runs";
  ASSERT_EQ(launch({"sweep", "export", directory, "--tensorboard", runs}).exit_code, 0);
  const auto file = std::filesystem::directory_iterator(runs + "/trial-0000")->path();
  const std::string records = read_file(file, 1 << 20).value_or("");
  int scalars = 0;
  for (auto at = records.find("loss"); at != records.npos; at = records.find("loss", at + 1)) ++scalars;
  EXPECT_EQ(scalars, 2) << "of step 1, and of step 2 with the new parameters";
}

TEST_F(LaunchSweepExchange, SaysWhetherToWaitOrToEnd) {
  const Printed made = launch({"sweep", "run", "--sweep-dir", directory, "--metric", "loss", "--space",
                               "x=choice:1", "--search", "grid", "--parallel", "0"});
  ASSERT_EQ(made.exit_code, 0) << made.err << "it needs no program";
  EXPECT_THAT(launch({"sweep", "show", "0", directory}).err, HasSubstr("has none yet\n"));
  ASSERT_EQ(launch({"sweep", "ask", directory}).exit_code, 0);
  const Printed wait = launch({"sweep", "ask", directory, "--json"});
  EXPECT_EQ(wait.exit_code, 1);
  EXPECT_EQ(json::parse(wait.out), (json{{"trial", nullptr}, {"over", false}}));
  const Printed mistyped = launch({"sweep", "tell", directory, "0", "los=1"});
  EXPECT_EQ(mistyped.exit_code, 0);
  EXPECT_EQ(mistyped.out, "go on\n");
  EXPECT_EQ(mistyped.err, "launch: los is not the metric loss of this sweep\n");
  const Printed told =
      launch({"sweep", "tell", directory, "0", "loss=1", "accuracy=1", "--state", "finished"});
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_EQ(told.err, "");
  const Printed over = launch({"sweep", "ask", directory});
  EXPECT_EQ(over.exit_code, 3);
  EXPECT_EQ(over.err, "launch: " + directory + ": the sweep is over: 1 trial\n");
  const Printed in_json = launch({"sweep", "ask", directory, "--json"});
  EXPECT_EQ(in_json.exit_code, 3);
  EXPECT_EQ(launch({"sweep", "best", directory}).out, "trial 0: loss=1 at step 2\nx=1\n");
  EXPECT_EQ(json::parse(in_json.out), (json{{"trial", nullptr}, {"over", true}}));
}

TEST_F(LaunchSweepExchange, StartsNoTrialThatHasNoDirectory) {
  ASSERT_EQ(
      launch(sweep_of("true", {"--space", "x=choice:1:2", "--search", "grid", "--parallel", "0"})).exit_code,
      0);
  std::ofstream(directory + "/trials") << "in the way";
  EXPECT_EQ(launch({"sweep", "ask", directory}).exit_code, 125);
  EXPECT_EQ(trials().size(), 0U);
  std::filesystem::remove(directory + "/trials");
  EXPECT_EQ(launch({"sweep", "ask", directory}).out, "trial 0 x=1\n");
}

TEST_F(LaunchSweepExchange, AStudyThatCannotBeASweepIsNamedAndLeavesNothing) {
  const std::string study = R"({"op_code":0,"worker_id":"a","study_name":"s","directions":[1]})"
                            "\n";
  const auto trial = [](const std::string& parameter) {
    return R"({"op_code":4,"worker_id":"a","study_id":0,"state":1,"value":1.0,"distributions":{")" +
           parameter +
           R"(":"{\"name\":\"FloatDistribution\",\"attributes\":{\"low\":0,\"high\":1}}"},"params":{")" +
           parameter + "\":0.5}}\n";
  };
  const std::string names =
      R"({"op_code":3,"worker_id":"a","study_id":0,"system_attr":{"study:metric_names":["val loss"]}})"
      "\n";
  const std::pair<std::string, const char*> wrong[] = {{study + names + trial("lr"), "`val loss`"},
                                                       {study + trial("a learning rate"), "a learning rate"}};
  const std::string file = scratch / "study.log";
  for (const auto& [text, named] : wrong) {
    std::ofstream(file) << text;
    const Printed answer = launch({"sweep", "import", directory, file});
    EXPECT_EQ(answer.exit_code, 2);
    EXPECT_THAT(answer.err, testing::AllOf(HasSubstr(file), HasSubstr(named)));
    EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
    EXPECT_FALSE(std::filesystem::exists(directory));
  }
  std::ofstream(file) << study + trial("lr");
  EXPECT_EQ(launch({"sweep", "import", directory, file}).exit_code, 0) << "the directory is free";
  EXPECT_EQ(trials().size(), 1U);
}

}  // namespace
}  // namespace muster
