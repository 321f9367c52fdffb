#include "launcher/core/settings/container_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::StartsWith;

using Flags = std::vector<std::pair<std::string, std::string>>;

const Surroundings kQuay{.environment = {{"HOME", "/home/ada"},
                                         {"PATH", "/bin"},
                                         {"PYTHONPATH", "/work/lib"},
                                         {"NCCL_DEBUG", "INFO"},
                                         {"HF_TOKEN", "hf_1"}},
                         .working_directory = "/work/train",
                         .hostname = "quay",
                         .files = {}};
const Machine kSixteenCores{.core_count = 16, .gpu_count = 8, .gpu_note = ""};

// Adds --image unless `values` has it. An empty --image in `values` means that it is missing.
Expected<Options> with_image(const Flags& values, const Surroundings& here = kQuay) {
  Settings settings;
  const auto given = std::ranges::find(values, "image", &Flags::value_type::first);
  if (given == values.end()) EXPECT_TRUE(add_setting(settings, *find_flag("image"), "--image", "debian:12"));
  for (const auto& [name, value] : values) {
    if (name == "image" && value.empty()) continue;
    EXPECT_NE(find_flag(name), nullptr) << name;
    EXPECT_TRUE(add_setting(settings, *find_flag(name), "--" + name, value));
  }
  return make_options(settings, {"train"}, here);
}
std::string container_refusal(const Flags& values) {
  const auto options = with_image(values);
  return options ? "(no error)" : options.error().message();
}
Expected<Plan> plan_with_image(const Flags& values, const Surroundings& here = kQuay) {
  auto options = with_image(values, here);
  if (!options) return std::unexpected(options.error());
  return make_plan(*options, kSixteenCores, here, "job");
}

TEST(ContainerOptions, TakeEachFlag) {
  const auto options = with_image({{"image", "localhost:5000/team/train:1.2"},
                                   {"nodes", "2"},
                                   {"pull", "always"},
                                   {"mount", "/data:/data:ro"},
                                   {"mount", "scratch:/scratch"},
                                   {"mount", "./cache/../c:/c/:rw"},
                                   {"shm-size", "1G"},
                                   {"memory", "512M"},
                                   {"cpus", "1.5"},
                                   {"gpus", "device=0,GPU-1"},
                                   {"network", "lab_net"},
                                   {"container-user", "1000:100"},
                                   {"read-only", "1"},
                                   {"container-arg", "ulimit=memlock=-1"},
                                   {"container-arg", "label=team=a=b"}});
  ASSERT_TRUE(options) << options.error().message();
  const ContainerOptions& container = options->remote.container;
  EXPECT_TRUE(options->remote.in_containers());
  EXPECT_EQ(options->remote.bootstrap, BootstrapKind::kDocker);
  EXPECT_EQ(container.image, "localhost:5000/team/train:1.2");
  EXPECT_EQ(container.pull, Pull::kAlways);
  EXPECT_THAT(container.mounts,
              ElementsAre(Mount{"/data", "/data", true}, Mount{"scratch", "/scratch", false},
                          Mount{"/work/train/c", "/c", false}));
  EXPECT_TRUE(container.mounts[1].is_volume());
  EXPECT_FALSE(container.mounts[2].is_volume());
  EXPECT_EQ(container.shm_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(container.memory_bytes, std::int64_t{512} << 20);
  EXPECT_EQ(container.cpus, 1.5);
  EXPECT_EQ(container.gpus, "device=0,GPU-1");
  EXPECT_EQ(container.network, "lab_net");
  EXPECT_EQ(container.user, "1000:100");
  EXPECT_TRUE(container.read_only);
  EXPECT_THAT(container.arguments,
              ElementsAre(ContainerArgument{"ulimit", "memlock=-1"}, ContainerArgument{"label", "team=a=b"}));
  EXPECT_EQ(with_image({{"pull", "never"}})->remote.container.pull, Pull::kNever);
  EXPECT_EQ(with_image({})->remote.container.pull, Pull::kMissing);
  for (const char* gpus : {"all", "4", "device=0"})
    EXPECT_EQ(with_image({{"gpus", gpus}})->remote.container.gpus, gpus);
  for (const char* user : {"0", "1000", "ada", "ada:staff"})
    EXPECT_EQ(with_image({{"container-user", user}})->remote.container.user, user);
  for (const char* limit : {"nofile=1024", "nofile=1024:4096", "core=0", "memlock=-1:-1"})
    EXPECT_TRUE(with_image({{"container-arg", std::string("ulimit=") + limit}})) << limit;
}

TEST(ContainerOptions, RefuseWrongValuesInOneLine) {
  const std::vector<std::pair<Flags, const char*>> cases = {
      {{{"image", "-v"}}, "--image: -v is not an image: give NAME, NAME:TAG or REGISTRY/NAME:TAG"},
      {{{"image", "a b"}}, "--image: a b is not an image"},
      {{{"image", "it's"}}, "--image: it's is not an image"},
      {{{"image", std::string(513, 'a')}}, "--image: aaaa"},
      {{{"pull", "sometimes"}}, "--pull: sometimes is none of missing, always, never"},
      {{{"mount", "/data"}}, "--mount: /data cannot be mounted: give SRC:DST or SRC:DST:ro"},
      {{{"mount", "/data:data"}}, "--mount: /data:data cannot be mounted"},
      {{{"mount", "/data:/"}}, "--mount: /data:/ cannot be mounted"},
      {{{"mount", "/data:/x/.."}}, "--mount: /data:/x/.. cannot be mounted"},
      {{{"mount", "/data:/x:rx"}}, "--mount: /data:/x:rx cannot be mounted"},
      {{{"mount", "a b:/x"}}, "--mount: a b:/x cannot be mounted"},
      {{{"mount", ":/x"}}, "--mount: :/x cannot be mounted"},
      {{{"mount", "/a:/x"}, {"mount", "/b:/x/"}},
       "--mount: /b:/x/ cannot be mounted: /a is already mounted there"},
      {{{"memory", "5M"}}, "--memory: 5M"},
      {{{"memory", "lots"}}, "--memory: lots"},
      {{{"shm-size", "1"}}, "--shm-size: 1"},
      {{{"cpus", "0"}}, "--cpus: 0 is not a number of cores: give 2 or 1.5"},
      {{{"cpus", "nan"}}, "--cpus: nan is not a number of cores"},
      {{{"cpus", "two"}}, "--cpus: two is not a number of cores"},
      {{{"gpus", "0"}}, "--gpus: 0 does not name GPUs: give all, a number for each container, or device=0,1"},
      {{{"gpus", "none"}}, "--gpus: none does not name GPUs"},
      {{{"gpus", "device="}}, "--gpus: device= does not name GPUs"},
      {{{"gpus", "device=0,,1"}}, "--gpus: device=0,,1 does not name GPUs"},
      {{{"network", "a b"}},
       "--network: a b is not a network: give the name of one that `docker network ls` shows"},
      {{{"network", "-n"}}, "--network: -n is not a network"},
      {{{"container-user", "1:2:3"}}, "--container-user: 1:2:3 is not a user: give UID, UID:GID"},
      {{{"container-user", "a:"}}, "--container-user: a: is not a user"},
      {{{"container-arg", "privileged=true"}},
       "--container-arg: privileged=true is not a container argument: give NAME=VALUE with one of these names: add-host, "
       "cap-add, "},
      {{{"container-arg", "device"}}, "--container-arg: device is not a container argument"},
      {{{"container-arg", "device="}}, "--container-arg: device= is not a container argument"},
      {{{"container-arg", "label=muster.job=x"}},
       "--container-arg: label=muster.job=x is a label reserved for Muster: give another name"},
      {{{"container-arg", "ulimit=nofile"}},
       "--container-arg: ulimit=nofile is not a limit: give ulimit=NAME=NUMBER or NAME=SOFT:HARD, -1 for none"},
      {{{"container-arg", "ulimit=nofile=many"}}, "--container-arg: ulimit=nofile=many is not a limit"},
      {{{"container-arg", "ulimit=nofile=1:2:3"}}, "--container-arg: ulimit=nofile=1:2:3 is not a limit"},
      {{{"container-arg", "ulimit==1"}}, "--container-arg: ulimit==1 is not a limit"},
  };
  for (const auto& [values, answer] : cases) {
    EXPECT_THAT(container_refusal(values), StartsWith(answer));
    EXPECT_THAT(container_refusal(values), Not(HasSubstr("\n")));
  }
}

TEST(ContainerOptions, RefuseContainerFlagsWithoutAnImage) {
  for (const auto& [name, value] : Flags{{"pull", "always"},
                                         {"mount", "/a:/a"},
                                         {"shm-size", "1G"},
                                         {"memory", "1G"},
                                         {"cpus", "1"},
                                         {"network", "n"},
                                         {"container-user", "1"},
                                         {"read-only", "1"},
                                         {"container-arg", "dns=::1"}}) {
    EXPECT_EQ(container_refusal({{"image", ""}, {name, value}}), fmt::format("--{}: needs --image", name));
  }
  EXPECT_EQ(container_refusal({{"image", ""}, {"gpus", "2"}}),
            "--gpus: needs --image; for workers use --gpus-per-node");
  EXPECT_EQ(container_refusal({{"image", ""}, {"bootstrap", "docker"}}), "--bootstrap: docker needs --image");
}

TEST(ContainerOptions, RefuseWhatContradictsContainers) {
  EXPECT_EQ(
      container_refusal({{"bootstrap", "local"}}),
      "--bootstrap: local does not start containers, but --image names an image: leave out one of them");
  EXPECT_EQ(container_refusal({{"bootstrap", "docker"}, {"hosts", "a,b"}}),
            "--bootstrap: docker starts all nodes as containers of one engine, but --hosts names hosts: "
            "leave out one of them");
  EXPECT_EQ(container_refusal({{"control", "socket"}}),
            "--control: socket does not work for agents in containers: give auto, tcp or stdio");
  for (const char* control : {"auto", "tcp", "stdio"})
    EXPECT_TRUE(with_image({{"control", control}})) << control;
  EXPECT_EQ(with_image({{"bootstrap", "docker"}})->remote.bootstrap, BootstrapKind::kDocker);
  EXPECT_EQ(with_image({{"hosts", "a,b"}})->remote.bootstrap, BootstrapKind::kSsh);
  EXPECT_EQ(with_image({{"hosts", "a"}, {"exec", "env"}})->remote.bootstrap, BootstrapKind::kExec);
}

TEST(ContainerOptions, PassOnVariablesThatAreNotPathsOfThisMachine) {
  const auto plan = plan_with_image({{"nodes", "2"}, {"gpus-per-node", "2"}});
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_THAT(plan->job.inherited, Contains(Key("NCCL_DEBUG")));
  for (const char* name : {"PATH", "PYTHONPATH", "HOME", "HF_TOKEN"})
    EXPECT_THAT(plan->job.inherited, Not(Contains(Key(name)))) << name;
}

TEST(ContainerPlan, HasAHostForEachContainerSparesToo) {
  const auto plan =
      plan_with_image({{"nodes", "2"}, {"gpus-per-node", "2"}, {"spare-nodes", "1"}, {"log-dir", "/logs"}});
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_EQ(plan->hosts.size(), 3U);
  EXPECT_EQ(plan->hosts[0].name, "muster-job-0");
  EXPECT_EQ(plan->hosts[2].name, "muster-job-2");
  EXPECT_EQ(plan->room_of(NodeId(2)), 2);
  EXPECT_EQ(plan->world_size(), 4);
  EXPECT_EQ(plan->control, Control::kAuto);
  EXPECT_EQ(plan->names().of(NodeId(1)), "node1 (muster-job-1)");
  EXPECT_FALSE(plan->job.use_gpus) << "a container without --gpus has none";
  EXPECT_TRUE(plan_with_image({{"gpus", "1"}, {"gpus-per-node", "1"}})->job.use_gpus);
}

TEST(ContainerPlan, MountsTheJobsOwnDirectoriesUnlessTheirPlacesAreTaken) {
  const auto mounts = [](const Flags& values) { return plan_with_image(values)->remote.container.mounts; };
  EXPECT_THAT(mounts({{"log-dir", "/logs"}}), ElementsAre(Mount{"/work/train", "/work/train", false},
                                                          Mount{"/logs/job", "/logs/job", false}));
  EXPECT_THAT(mounts({{"log-dir", "/logs"}, {"checkpoint-dir", "/ckpt"}}),
              Contains(Mount{"/ckpt", "/ckpt", false}));
  EXPECT_THAT(mounts({{"log-dir", "/logs"}, {"mount", "code:/work/train:ro"}}),
              ElementsAre(Mount{"code", "/work/train", true}, Mount{"/logs/job", "/logs/job", false}));
  EXPECT_THAT(with_own_directories({}, {"/a", "", "/a"}), ElementsAre(Mount{"/a", "/a", false}));
}

TEST(ContainerPlan, ShowsTheContainersOptions) {
  const auto plan = plan_with_image({{"log-dir", "/logs"},
                                     {"nodes", "2"},
                                     {"memory", "2G"},
                                     {"cpus", "1.5"},
                                     {"shm-size", "64M"},
                                     {"container-user", "7:8"},
                                     {"read-only", "1"},
                                     {"container-arg", "ulimit=nofile=99"}});
  ASSERT_TRUE(plan) << plan.error().message();
  const std::string text = plan_as_text(*plan);
  for (const char* line : {"memory +2.0 GiB\n", "cpus +1.5\n", "shm size +64 MiB\n", "user +7:8\n",
                           "root +read only\n", "argument +ulimit=nofile=99\n"})
    EXPECT_THAT(text, testing::ContainsRegex(line));
  const auto json = nlohmann::json::parse(plan_as_json(*plan));
  EXPECT_EQ(json["image"], "debian:12");
  EXPECT_EQ(json["container"]["memory_bytes"], std::int64_t{2} << 30);
  EXPECT_EQ(json["container"]["arguments"][0], "ulimit=nofile=99");
  EXPECT_EQ(json["container"]["mounts"].back()["destination"], "/logs/job");
}

TEST(ContainerPlan, SharesTheMachinesCoresAmongAllWorkers) {
  const auto threads = [](Flags values, const Surroundings& here = kQuay) {
    values.emplace_back("log-dir", "/logs");
    return plan_with_image(values, here)->job.inherited["OMP_NUM_THREADS"];
  };
  EXPECT_EQ(threads({{"nodes", "2"}, {"gpus-per-node", "2"}}), "4");
  EXPECT_EQ(threads({{"nodes", "2"}, {"gpus-per-node", "2"}, {"cpus", "2"}}), "1");
  EXPECT_EQ(threads({{"nodes", "2"}, {"gpus-per-node", "2"}, {"cpus", "7.5"}}), "3");
  EXPECT_EQ(threads({{"nodes", "16"}, {"gpus-per-node", "4"}}), "1");
  Surroundings chosen = kQuay;
  chosen.environment["OMP_NUM_THREADS"] = "7";
  EXPECT_EQ(threads({{"nodes", "2"}, {"gpus-per-node", "2"}}, chosen), "7");
  EXPECT_THAT(plan_with_image({{"hosts", "a:2"}, {"log-dir", "/logs"}})->job.inherited,
              Not(Contains(Key("OMP_NUM_THREADS"))))
      << "the GPUs of another machine are unknown here";
}

TEST(ContainerPlan, RefusesTheRootAsWorkingDirectory) {
  Surroundings root = kQuay;
  root.working_directory = "/";
  const auto plan = plan_with_image({{"log-dir", "/logs"}}, root);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message(),
            "--image: the working directory is /, which cannot be mounted: start from another directory");
}

// On other hosts the value becomes a word of `docker run` in a script that any shell may read.
TEST(ContainerPlan, RefusesValuesThatAHostsShellWouldChange) {
  const auto refused = [](Flags values, const std::string& directory = "/work") {
    Surroundings here = kQuay;
    here.working_directory = directory;
    values.insert(values.end(), {{"hosts", "a"}, {"log-dir", "/logs"}});
    const auto plan = plan_with_image(values, here);
    return plan ? "(no error)" : plan.error().message();
  };
  EXPECT_EQ(refused({{"mount", "/data:/data"}, {"container-arg", "tmpfs=/x:size=1m,mode=700"}}),
            "(no error)");
  EXPECT_EQ(refused({{"mount", "/it's:/data"}}),
            "--image: /it's cannot be passed to `docker run` on the hosts: use a name without quotes, "
            "backslashes, $, !, ` and commas");
  EXPECT_THAT(refused({{"mount", "/a,b:/data"}}), StartsWith("--image: /a,b cannot be passed"));
  EXPECT_THAT(refused({{"mount", "/a:/$HOME"}}), StartsWith("--image: /$HOME cannot be passed"));
  EXPECT_THAT(refused({{"container-arg", "label=a=$(id)"}}), StartsWith("--image: a=$(id) cannot be passed"));
  EXPECT_THAT(refused({}, "/wörk"), StartsWith("--image: /wörk cannot be passed"));
  EXPECT_TRUE(plan_with_image({{"mount", "/it's:/data"}, {"log-dir", "/logs"}}))
      << "this machine's engine gets JSON, not a script";
}

}  // namespace
}  // namespace muster::launcher
