#include "launcher/core/settings/options.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/core/settings/several_launchers.h"
#include "launcher/core/settings/variables.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

const Surroundings kSurroundings{.environment = {{"HOME", "/home/ada"}, {"TOKEN", "secret"}},
                                 .working_directory = "/work/run",
                                 .hostname = "box"};

const Surroundings kHereInFull{.environment = kSurroundings.environment,
                               .working_directory = "/work/run",
                               .hostname = "box.example.org"};

Settings settings_of(const std::vector<std::pair<std::string, std::string>>& values) {
  Settings settings;
  for (const auto& [name, value] : values) {
    const Flag* flag = find_flag(name);
    EXPECT_NE(flag, nullptr) << name;
    EXPECT_TRUE(add_setting(settings, *flag, "--" + name, value));
  }
  return settings;
}

Expected<Options> options_of(const std::vector<std::pair<std::string, std::string>>& values,
                             const Surroundings& here = kSurroundings) {
  return make_options(settings_of(values), {"train", "--lr", "0.1"}, here);
}

std::string error_of(const std::vector<std::pair<std::string, std::string>>& values,
                     const Surroundings& here = kSurroundings) {
  const auto options = options_of(values, here);
  return options ? "(no error)" : options.error().message();
}

TEST(Options, TakeTheLimitsThatTorchrunsVariablesSet) {
  const Environment given = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"},
                             {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "90.5"}};
  const auto options = make_options(*settings_from_environment(given), {"train"}, kSurroundings);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->limits.grace, std::chrono::seconds(7));
  EXPECT_EQ(options->limits.uninterruptible_limit, std::chrono::milliseconds(90500));
  Environment both = given;
  both["PET_SHUTDOWN_TIMEOUT"] = "8";
  EXPECT_EQ(make_options(*settings_from_environment(both), {"train"}, kSurroundings)->limits.grace,
            std::chrono::seconds(8));
  const auto wrong = make_options(*settings_from_environment({{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}),
                                  {"train"}, kSurroundings);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("TORCH_ELASTIC_SHUTDOWN_TIMEOUT: soon"));
}

TEST(Options, HaveDefaults) {
  const auto options = options_of({});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->nodes, 1);
  EXPECT_EQ(options->workers_per_node.number, 1);
  EXPECT_EQ(options->max_restarts, 3);
  EXPECT_EQ(options->limits.grace, 10s);
  EXPECT_EQ(options->limits.controller_grace, 30s);
  EXPECT_EQ(options->log_directory, "/home/ada/.local/state/muster");
  EXPECT_EQ(options->checkpoint_directory, "");
  EXPECT_THAT(options->program, ElementsAre("train", "--lr", "0.1"));
}

TEST(Options, TakeDurationsWithUnits) {
  const auto options = options_of({{"grace", "10"},
                                   {"hang-limit", "5m"},
                                   {"restart-window", "1h30m"},
                                   {"silence-limit", "1.5s"},
                                   {"time-limit", "2d"}});
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->limits.grace, 10s);
  EXPECT_EQ(options->limits.hang_limit, 5min);
  EXPECT_EQ(options->recovery.restart_window, 90min);
  EXPECT_EQ(options->limits.silence_limit, 1500ms);
  EXPECT_EQ(options->recovery.time_limit, 48h);
}

TEST(Options, MakeDirectoriesAbsolute) {
  const auto options = options_of({{"log-dir", "logs"}, {"checkpoint-dir", "../ckpt"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->log_directory, "/work/run/logs");
  EXPECT_EQ(options->checkpoint_directory, "/work/ckpt");
}

TEST(Options, TakeTheStateDirectoryOfTheDesktopStandard) {
  Surroundings here = kSurroundings;
  here.environment["XDG_STATE_HOME"] = "/state";
  EXPECT_EQ(options_of({}, here)->log_directory, "/state/muster");
  here.environment.clear();
  EXPECT_THAT(error_of({}, here), HasSubstr("--log-dir"));
}

TEST(Options, PassOnAndSetVariables) {
  const auto options = options_of({{"env", "A=1=2"}, {"env", "TOKEN"}, {"env", "EMPTY="}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->added,
            (std::map<std::string, std::string>{{"A", "1=2"}, {"TOKEN", "secret"}, {"EMPTY", ""}}));
}

struct BadValue {
  const char* flag;
  const char* value;
  const char* message;
};
void PrintTo(const BadValue& bad, std::ostream* out) {
  *out << "--" << bad.flag << " " << bad.value;
}
class BadValues : public testing::TestWithParam<BadValue> {};

TEST_P(BadValues, GetOneLineWithTheFlagTheValueAndTheCorrection) {
  const std::string error = error_of({{GetParam().flag, GetParam().value}});
  EXPECT_THAT(error, HasSubstr(std::string("--") + GetParam().flag + ": " + GetParam().value));
  EXPECT_THAT(error, HasSubstr(GetParam().message));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadValues,
    testing::Values(
        BadValue{"nodes", "0", "is not a number of nodes: give 1 or more"},
        BadValue{"nodes", "-1", "give 1 or more"}, BadValue{"nodes", "two", "give 1 or more"},
        BadValue{"nodes", "2x", "give 1 or more"},
        BadValue{"nodes", "99999999999999999999", "give 1 or more"},
        BadValue{"nodes", "4097", "is more than the 4096 nodes allowed on one machine"},
        BadValue{"nodes", "4:1", "give MIN:MAX, such as 1:4"}, BadValue{"nodes", "1:2:3", "or MIN:MAX"},
        BadValue{"nodes", "0:2", "or MIN:MAX"}, BadValue{"nodes", ":2", "or MIN:MAX"},
        BadValue{"spare-nodes", "-1", "give 0 or more"},
        BadValue{"restart-window", "0", "is too short: give more than 0 seconds"},
        BadValue{"restart-delay", "-1", "is not a duration"},
        BadValue{"no-progress-limit", "few", "is not a number of failures: give 0 or more"},
        BadValue{"node-exclusion", "x", "is not a duration"},
        BadValue{"preemption-grace", "x", "is not a duration"},
        BadValue{"time-limit", "0", "is not a time: give seconds, MM:SS, HH:MM:SS or a duration"},
        BadValue{"time-limit", "1:60", "is not a time"}, BadValue{"time-limit", "1:2:3:4", "is not a time"},
        BadValue{"time-limit", "1:-2", "is not a time"}, BadValue{"time-limit", "2x", "is not a time"},
        BadValue{"time-limit", "99999:00:00", "is not a time"}, BadValue{"nnodes", "1:2:3", "give 1 or more"},
        BadValue{"gpus-per-node", "0", "1 or more, or auto, gpu or cpu"},
        BadValue{"nproc-per-node", "xpu", "1 or more, or auto, gpu or cpu"},
        BadValue{"device", "tpu", "is none of auto, cuda, cpu"},
        BadValue{"backend", "zeus", "is none of gloo, nccl, mpi, shm"},
        BadValue{"max-restarts", "-1", "give 0 or more"}, BadValue{"grace", "soon", "is not a duration"},
        BadValue{"grace", "-1", "is not a duration"}, BadValue{"grace", "inf", "is not a duration"},
        BadValue{"grace", "nan", "is not a duration"}, BadValue{"silence-limit", "0", "is too short"},
        BadValue{"output-stall", "-1", "is not a duration"},
        BadValue{"log-limit", "63K", "is too little: give 64K or more"},
        BadValue{"memory-tier", "1000K", "is too little: give 1M or more"},
        BadValue{"memory-tier", "-1G", "is not a number of bytes"},
        BadValue{"log-limit", "1.5G", "is not a number of bytes"},
        BadValue{"log-limit", "M", "is not a number of bytes"},
        BadValue{"log-limit", "99999999999T", "is not a number of bytes"},
        BadValue{"controller-grace", "1e99", "is not a duration"},
        BadValue{"redirects", "4", "does not name streams"}, BadValue{"tee", "0:1,", "does not name streams"},
        BadValue{"tee", "x:1", "does not name streams"},
        BadValue{"local-ranks-filter", "0,x", "is not a list of local ranks"},
        BadValue{"duplicate-stdout-filters", "loss,", "has an empty text"},
        BadValue{"duplicate-stderr-filters", "", "has an empty text"},
        BadValue{"env", "=x", "does not name a variable"},
        BadValue{"env", "A B=x", "does not name a variable"}, BadValue{"env", "NOT_SET", "is not set here"},
        BadValue{"rdzv-id", "", "(empty) does not name a job"},
        BadValue{"nodes", "", "(empty) is not a number"},
        BadValue{"rdzv-backend", "zeus", "is none of static, c10d, etcd, etcd-v2"},
        BadValue{"rdzv-conf", "timeout", "is not a list of KEY=VALUE"},
        BadValue{"start-method", "thread", "is none of spawn, fork, forkserver"},
        BadValue{"logs-specs", "mine", "is none of default"},
        BadValue{"monitor-interval", "often", "is not a duration"},
        BadValue{"signals-to-handle", "SIGFOO", "is not a signal name: give names as in SIGTERM,SIGUSR1"},
        BadValue{"signals-to-handle", "TERM", "is not a signal name"},
        BadValue{"master-port", "70000", "is not a port"}, BadValue{"master-port", "http", "is not a port"},
        BadValue{"control", "udp", "is none of auto, socket, tcp, stdio"},
        BadValue{"store", "disk", "is none of agent, worker"}));

TEST(Options, TakeOneNumberOfNodesInTorchrunsForm) {
  EXPECT_EQ(options_of({{"nnodes", "2:2"}})->nodes, 2);
}

TEST(Options, TakeSmallestAndLargestNumberOfNodes) {
  const auto elastic = options_of({{"nodes", "1:4"}});
  ASSERT_TRUE(elastic);
  EXPECT_EQ(elastic->nodes, 4);
  EXPECT_EQ(elastic->min_nodes, 1);
  EXPECT_EQ(nodes_text(*elastic), "1:4");
  EXPECT_EQ(options_of({{"nodes", "4"}})->min_nodes, std::nullopt);
  EXPECT_EQ(nodes_text(*options_of({{"nodes", "4:4"}})), "4");
}

TEST(Options, TakeTextsWithDoubledCommas) {
  const auto options =
      options_of({{"duplicate-stdout-filters", "apple,b,,c"}, {"duplicate-stderr-filters", ",,"}});
  ASSERT_TRUE(options);
  EXPECT_THAT(options->stdout_filters, ElementsAre("apple", "b,c"));
  EXPECT_THAT(options->stderr_filters, ElementsAre(","));
}

TEST(Options, RefuseFlagsThatNeedAnotherOne) {
  EXPECT_EQ(
      error_of({{"memory-tier", "1G"}}),
      "--memory-tier: needs --checkpoint-dir, where the nodes leave what they hold in memory when the job ends");
  EXPECT_EQ(error_of({{"take-over", "1"}}),
            "--take-over: needs --checkpoint-dir, the directory that it takes over");
  EXPECT_EQ(error_of({{"take-over", "0"}}), "(no error)") << "in a file: `take-over: false`";
  for (const char* flag : {"ssh-parallel", "connect-timeout"})
    EXPECT_THAT(error_of({{flag, "3"}}),
                HasSubstr("needs --hosts; without it all agents start on this machine"));
  const auto for_all =
      settings_from_environment({{"MUSTER_MEMORY_TIER", "1G"}, {"MUSTER_SSH_PARALLEL", "3"}});
  EXPECT_TRUE(make_options(*for_all, {"train"}, kSurroundings)) << "variables may be set for all launches";
}

TEST(Options, SayHowToRecover) {
  const RecoveryOptions defaults = options_of({})->recovery;
  EXPECT_EQ(defaults.restart_window, 3600s);
  EXPECT_EQ(defaults.restart_delay, 1s);
  EXPECT_EQ(defaults.no_progress_limit, 3);
  EXPECT_EQ(defaults.node_exclusion, 600s);
  EXPECT_EQ(defaults.preemption_grace, 30s);
  EXPECT_EQ(defaults.time_limit, std::nullopt);
  const auto given = options_of({{"spare-nodes", "2"},
                                 {"restart-window", "60"},
                                 {"restart-delay", "0"},
                                 {"no-progress-limit", "0"},
                                 {"node-exclusion", "0.5"},
                                 {"preemption-grace", "5"}});
  ASSERT_TRUE(given);
  EXPECT_EQ(given->spare_nodes, 2);
  EXPECT_EQ(given->recovery.restart_window, 60s);
  EXPECT_EQ(given->recovery.restart_delay, 0s);
  EXPECT_EQ(given->recovery.no_progress_limit, 0);
  EXPECT_EQ(given->recovery.node_exclusion, 500ms);
  EXPECT_EQ(given->recovery.preemption_grace, 5s);
}

TEST(Options, TakeEveryLimitFromTheFlagOfItsName) {
  for (const auto& [name, field, may_be_zero] : wire::kTimeLimits) {
    ASSERT_NE(find_flag(name), nullptr) << name;
    EXPECT_EQ(options_of({{std::string(name), "17"}})->limits.*field, 17s) << name;
    EXPECT_EQ(options_of({{std::string(name), "0"}}).has_value(), may_be_zero) << name;
  }
  for (const auto& [name, field, least_bytes] : wire::kSizeLimits) {
    ASSERT_NE(find_flag(name), nullptr) << name;
    EXPECT_EQ(options_of({{std::string(name), "3M"}, {"checkpoint-dir", "c"}})->limits.*field, 3 << 20)
        << name;
    EXPECT_FALSE(options_of({{std::string(name), std::to_string(least_bytes - 1)}})) << name;
  }
}

TEST(Options, TakeANumberOfBytesWithItsUnit) {
  EXPECT_EQ(options_of({})->limits.log_limit_bytes, 0);
  EXPECT_EQ(options_of({{"log-limit", "65536"}})->limits.log_limit_bytes, 65536);
  EXPECT_EQ(options_of({{"log-limit", "512M"}})->limits.log_limit_bytes, std::int64_t{512} << 20);
  EXPECT_EQ(options_of({{"log-limit", "2G"}})->limits.log_limit_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(options_of({})->limits.memory_tier_bytes, 0);
  EXPECT_EQ(options_of({{"memory-tier", "16G"}, {"checkpoint-dir", "c"}})->limits.memory_tier_bytes,
            std::int64_t{16} << 30);
}

TEST(Options, TakeATimeInSecondsOrAsOnAClock) {
  const auto limit = [](const char* text) { return options_of({{"time-limit", text}})->recovery.time_limit; };
  EXPECT_EQ(limit("90"), 90s);
  EXPECT_EQ(limit("0.5"), 500ms);
  EXPECT_EQ(limit("90:00"), 90min);
  EXPECT_EQ(limit("2:30:05"), 2h + 30min + 5s);
}

TEST(Options, NeedAProgram) {
  const auto options = make_options({}, {}, kSurroundings);
  ASSERT_FALSE(options);
  EXPECT_THAT(options.error().message(), HasSubstr("no program given"));
}

TEST(Options, RefuseTwoNamesForOneThing) {
  Settings settings;
  ASSERT_TRUE(add_setting(settings, *find_flag("nodes"), "--nodes", "1"));
  const Status second = add_setting(settings, *find_flag("nnodes"), "--nnodes", "2");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(), "--nnodes: means the same as --nodes: give only one of them");
}

TEST(Options, PreferMustersVariablesToTorchruns) {
  auto settings = settings_from_environment({{"MUSTER_NODES", "3"},
                                             {"PET_NNODES", "2"},
                                             {"PET_NPROC_PER_NODE", "4"},
                                             {"PET_STANDALONE", "1"},
                                             {"MUSTER_JSON", "false"},
                                             {"PET_MONITOR_INTERVAL", "1"},
                                             {"MUSTER_GRACE", ""}});
  ASSERT_TRUE(settings);
  const auto options = make_options(*settings, {"train"}, kSurroundings);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->nodes, 3);
  EXPECT_EQ(options->workers_per_node.number, 4);
  EXPECT_FALSE(options->json);
}

TEST(Options, TellTheWorkersTheBackend) {
  const auto options =
      make_options(*settings_from_environment({{"MUSTER_BACKEND", "gloo"}}), {"train"}, kSurroundings);
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->added.at("MUSTER_BACKEND"), "gloo");
  EXPECT_FALSE(make_options({}, {"train"}, kSurroundings)->added.contains("MUSTER_BACKEND"));
}

TEST(Options, IgnoreVariablesOfTheOuterJob) {
  const Environment given{
      {"MUSTER_CHECKPOINT_DIR", "/outer"}, {"MUSTER_BACKEND", "gloo"}, {"MUSTER_NODES", "2"}};
  EXPECT_TRUE(settings_from_environment(given)->contains("checkpoint-dir"));
  EXPECT_TRUE(settings_from_environment(given)->contains("backend"));
  Environment nested = given;
  nested["MUSTER_JOB_ID"] = "outer-1";
  EXPECT_FALSE(settings_from_environment(nested)->contains("checkpoint-dir"));
  EXPECT_FALSE(settings_from_environment(nested)->contains("backend"));
  EXPECT_TRUE(settings_from_environment(nested)->contains("nodes"));
}

TEST(Options, NameTheWrongVariable) {
  const auto settings = settings_from_environment({{"PET_NNODES", "0"}});
  ASSERT_TRUE(settings);
  EXPECT_THAT(make_options(*settings, {"train"}, kSurroundings).error().message(),
              HasSubstr("PET_NNODES: 0 is not"));
  EXPECT_THAT(settings_from_environment({{"PET_NUMA_BINDING", "node"}}).error().message(),
              HasSubstr("PET_NUMA_BINDING: not supported"));
  EXPECT_EQ(settings_from_environment({{"MUSTER_QUIET", "perhaps"}}).error().message(),
            "MUSTER_QUIET: 'perhaps' is neither yes nor no: give 1 or 0");
}

TEST(Options, AcceptTheUsualWordsForYesAndNoInVariables) {
  for (const char* const yes : {"1", "true", "YES", "on"})
    EXPECT_TRUE(
        make_options(*settings_from_environment({{"MUSTER_QUIET", yes}}), {"train"}, kSurroundings)->quiet);
  for (const char* const no : {"0", "False", "no", "off"})
    EXPECT_FALSE(
        make_options(*settings_from_environment({{"MUSTER_QUIET", no}}), {"train"}, kSurroundings)->quiet);
}

TEST(Variables, AreSuggestedForMistypedOnes) {
  EXPECT_THAT(notices_of_variables({{"MUSTER_NODE", "2"}, {"MUSTER_NNODES", "2"}, {"MUSTER_NODES", "2"}}),
              ElementsAre("MUSTER_NNODES: launch reads no such variable: did you mean MUSTER_NODES?",
                          "MUSTER_NODE: launch reads no such variable: did you mean MUSTER_NODES?"));
  EXPECT_THAT(notices_of_variables({{"MUSTER_NODE", ""}, {"MUSTER_TEAM_COLOUR", "x"}, {"NODE", "2"}}),
              ElementsAre())
      << "an empty variable counts as unset, and a program's own is nobody's mistake";
  EXPECT_THAT(notices_of_variables({{"MUSTER_PARAM_NODE", "2"}, {"MUSTER_TRIALS", "2"}}), ElementsAre());
}

// Every word MUSTER_NAME in Muster's own files.
Environment variables_in_the_tree() {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(FLAGS_DOCUMENT).parent_path().parent_path().parent_path();
  Environment found;
  const auto read = [&](const fs::path& path) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator(file), {}};
    for (std::size_t at = text.find("MUSTER_"); at != std::string::npos; at = text.find("MUSTER_", at + 1)) {
      std::size_t end = at;
      while (end < text.size() &&
             (std::isupper(static_cast<unsigned char>(text[end])) != 0 ||
              std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
        ++end;
      found.insert_or_assign(text.substr(at, end - at), "1");
    }
  };
  for (const char* folder : {"agent", "common", "launcher", "python", "runtime", "docker"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file()) read(entry.path());
  }
  read(root / "dev");
  read(root / "docs/reference/environment.md");
  return found;
}

TEST(Variables, OfMusterItselfAreKnown) {
  const Environment found = variables_in_the_tree();
  EXPECT_TRUE(found.contains("MUSTER_SOCKET"));
  EXPECT_THAT(notices_of_variables(found), ElementsAre());
}

TEST(Options, RefuseToBeOneOfSeveralLaunchers) {
  const std::string error = error_of({{"nnodes", "2"}, {"node-rank", "0"}});
  EXPECT_THAT(error, HasSubstr("--node-rank: 0 means that this is one of several launchers"));
  EXPECT_THAT(error, HasSubstr("`launch --nodes 2 --gpus-per-node 1 train`"));
  EXPECT_THAT(error_of({{"node-rank", "1"}}), HasSubstr("--node-rank: 1 "));
  EXPECT_THAT(error_of({{"nnodes", "2"}, {"master-addr", "10.0.0.1"}}),
              HasSubstr("--master-addr: 10.0.0.1 is another machine"));
  for (const char* nodes : {"1", "2"}) {
    for (const char* place : {"head:29400", "10.0.0.1:29400", "box2", "box.other.org"}) {
      EXPECT_THAT(error_of({{"nnodes", nodes}, {"rdzv-endpoint", place}}, kHereInFull),
                  HasSubstr(fmt::format("--rdzv-endpoint: {} is another machine", place)));
    }
  }
}

TEST(Options, AcceptNamesOfThisMachine) {
  EXPECT_TRUE(options_of({{"nnodes", "1"}, {"node-rank", "0"}}));
  for (const char* nodes : {"1", "2"}) {
    for (const char* place : {"", ":0", "localhost:0", "127.0.0.1:29400", "[::1]:5", "::1", "box:29400",
                              "box.example.org:29400", ":29400"}) {
      EXPECT_TRUE(options_of({{"nnodes", nodes}, {"rdzv-endpoint", place}})) << place;
    }
  }
  Surroundings here = kSurroundings;
  here.hostname = "box.example.org";
  EXPECT_TRUE(options_of({{"master-addr", "box"}}, here));
}

TEST(Options, SayThatAllNodesStartOnThisMachine) {
  const auto notice = [](const std::vector<std::pair<std::string, std::string>>& values) {
    const auto options = options_of(values, kHereInFull);
    EXPECT_TRUE(options);
    return notice_of_one_machine(settings_of(values), *options, kHereInFull).value_or("");
  };
  EXPECT_EQ(notice({{"nnodes", "2"}, {"master-addr", "box"}}),
            "--master-addr: box is this machine, and all 2 nodes start here: "
            "to start nodes on other machines too, name all machines with --hosts");
  EXPECT_THAT(notice({{"nnodes", "2"}, {"rdzv-endpoint", "box.example.org:29400"}}),
              HasSubstr("--rdzv-endpoint: box.example.org is this machine"));
  EXPECT_EQ(notice({{"nnodes", "2"}}), "");
  EXPECT_EQ(notice({{"nnodes", "1"}, {"master-addr", "box"}}), "");
  EXPECT_EQ(notice({{"nnodes", "2"}, {"master-addr", "localhost"}}), "");
  EXPECT_EQ(notice({{"nnodes", "2"}, {"master-addr", "127.0.0.1"}}), "");
  EXPECT_EQ(notice({{"nnodes", "2"}, {"master-addr", "box"}, {"standalone", "1"}}), "");
  EXPECT_EQ(notice({{"nnodes", "2"}, {"master-addr", "box"}, {"hosts", "box,box2"}}), "");
}

TEST(Options, LetStandaloneWinOverOtherMachines) {
  for (const char* name : {"rdzv-endpoint", "master-addr"})
    EXPECT_TRUE(options_of({{"standalone", "1"}, {name, "other.example:29500"}})) << name;
  EXPECT_TRUE(options_of({{"standalone", "1"}, {"node-rank", "1"}}));
  EXPECT_EQ(options_of({{"standalone", "1"}, {"master-port", "29517"}})->master_port, 0);
}

TEST(Options, KeepTheRunIdAndMakeAFileNameFromIt) {
  const auto odd = options_of({{"rdzv-id", "../a b:7"}});
  ASSERT_TRUE(odd) << odd.error().message();
  EXPECT_EQ(odd->run_id, "../a b:7");
  EXPECT_EQ(odd->job_name, "-.-a-b-7");
  EXPECT_EQ(options_of({{"rdzv-id", std::string(300, 'x')}})->job_name.size(), 100U);
  const auto none = options_of({{"rdzv-id", "none"}});
  EXPECT_EQ(none->run_id, "none");
  EXPECT_EQ(none->job_name, "");
}

TEST(Options, TakeTheMasterPortAsTorchrunDoes) {
  const auto port_of = [](const std::vector<std::pair<std::string, std::string>>& flags) {
    const auto options = options_of(flags);
    return options ? options->master_port : -1;
  };
  EXPECT_EQ(port_of({}), 0);
  EXPECT_EQ(port_of({{"master-port", "29517"}}), 29517);
  EXPECT_EQ(port_of({{"master-port", "29517"}, {"rdzv-backend", "static"}}), 29517);
  EXPECT_EQ(port_of({{"master-port", "29517"}, {"rdzv-backend", "c10d"}}), 0);
  EXPECT_EQ(port_of({{"rdzv-endpoint", "localhost:29518"}}), 29518);
  EXPECT_EQ(port_of({{"rdzv-endpoint", "localhost:29518"}, {"master-port", "29517"}}), 29518);
  EXPECT_EQ(port_of({{"rdzv-endpoint", "[::1]:29518"}}), 29518);
  EXPECT_EQ(port_of({{"rdzv-endpoint", "::1"}, {"master-port", "29517"}}), 29517);
  EXPECT_EQ(port_of({{"rdzv-endpoint", "localhost:29518"}, {"rdzv-backend", "c10d"}}), 0);
}

TEST(Options, RefuseAnAllocationOfSeveralNodes) {
  Surroundings here = kSurroundings;
  here.environment["SLURM_JOB_NUM_NODES"] = "4";
  EXPECT_THAT(error_of({}, here), HasSubstr("Slurm allocated 4 nodes"));
  here.environment["SLURM_JOB_NUM_NODES"] = "1";
  EXPECT_TRUE(options_of({}, here));
}

TEST(Streams, AreReadForAllOrByLocalRank) {
  EXPECT_EQ(streams_of("3", 7), 3);
  EXPECT_EQ(streams_of("0:1,1:2", 0), 1);
  EXPECT_EQ(streams_of("0:1,1:2", 1), 2);
  EXPECT_EQ(streams_of("0:1,1:2", 2), 0);
  EXPECT_EQ(streams_of("", 0), 0);
}

}  // namespace
}  // namespace muster::launcher
