#include "launcher/core/fleet/container_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace muster::launcher {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

Plan plan_of(ContainerOptions container) {
  Plan plan;
  plan.job.job_id = "j1";
  container.image = "debian:12";
  plan.remote.container = std::move(container);
  plan.hosts = {{.name = "muster-j1-0"}, {.name = "muster-j1-1"}, {.name = "muster-j1-2"}};
  return plan;
}

const ContainerSurroundings kMachine{.user = "1000:100",
                                     .programs = {{"/opt/muster/agent", kAgentInContainer, true}},
                                     .memory_bytes = std::int64_t{64} << 30,
                                     .launcher = "boot ns 7 8 here"};

Json body_of(ContainerOptions container, int node = 1) {
  return Json::parse(container_body(plan_of(std::move(container)), {NodeId(node), Incarnation(3)},
                                    {"--stdio", "--node", "1"}, kMachine));
}

TEST(ContainerBody, GainsNoPrivilegesAndEndsWithItsAgent) {
  const Json body = body_of({.mounts = {{"/work", "/work", false}, {"data", "/data", true}}});
  EXPECT_EQ(body["Image"], "debian:12");
  EXPECT_EQ(body["User"], "1000:100");
  EXPECT_EQ(body["Entrypoint"], Json::array()) << "the image's own would be first";
  EXPECT_EQ(body["Cmd"], Json({kAgentInContainer, "--stdio", "--node", "1"}));
  EXPECT_EQ(body["WorkingDir"], "/");
  EXPECT_EQ(body["Hostname"], "node1");
  EXPECT_EQ(body["Labels"], Json({{"muster.job", "j1"},
                                  {"muster.node", "1"},
                                  {"muster.incarnation", "3"},
                                  {"muster.launcher", "boot ns 7 8 here"}}));
  for (const char* yes : {"AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce"})
    EXPECT_EQ(body[yes], true) << yes;
  EXPECT_EQ(body["Tty"], false);
  EXPECT_EQ(body["Healthcheck"]["Test"], Json({"NONE"}));
  const Json& host = body["HostConfig"];
  EXPECT_EQ(host["AutoRemove"], true);
  EXPECT_EQ(host["LogConfig"]["Type"], "none");
  EXPECT_EQ(host["CapDrop"], Json({"ALL"}));
  EXPECT_EQ(host["SecurityOpt"], Json({"no-new-privileges"}));
  EXPECT_EQ(host["ReadonlyRootfs"], false);
  EXPECT_EQ(host["ShmSize"], std::int64_t{32} << 30) << "half of the memory";
  EXPECT_EQ(host["NetworkMode"], "muster-j1");
  EXPECT_EQ(body["NetworkingConfig"]["EndpointsConfig"]["muster-j1"]["Aliases"], Json({"node1"}));
  for (const char* none :
       {"Memory", "MemorySwap", "NanoCpus", "DeviceRequests", "Tmpfs", "CapAdd", "Ulimits"})
    EXPECT_FALSE(host.contains(none)) << none;
  EXPECT_EQ(host["Mounts"],
            Json({{{"Type", "bind"}, {"Source", "/work"}, {"Target", "/work"}, {"ReadOnly", false}},
                  {{"Type", "volume"}, {"Source", "data"}, {"Target", "/data"}, {"ReadOnly", true}},
                  {{"Type", "bind"},
                   {"Source", "/opt/muster/agent"},
                   {"Target", kAgentInContainer},
                   {"ReadOnly", true}}}));
}

TEST(ContainerBody, HasTheLimitsThatAreGiven) {
  const Json body =
      body_of({.shm_bytes = 1 << 20, .memory_bytes = 1 << 28, .cpus = 1.5, .user = "0:0", .read_only = true});
  const Json& host = body["HostConfig"];
  EXPECT_EQ(body["User"], "0:0");
  EXPECT_EQ(host["ShmSize"], 1 << 20);
  EXPECT_EQ(host["Memory"], 1 << 28);
  EXPECT_EQ(host["MemorySwap"], 1 << 28) << "no additional swap";
  EXPECT_EQ(host["NanoCpus"], 1'500'000'000);
  EXPECT_EQ(host["ReadonlyRootfs"], true);
  EXPECT_EQ(host["Tmpfs"], Json({{"/tmp", ""}, {"/run", ""}}));
}

TEST(ContainerBody, AsksForTheGpusOfItsNode) {
  const auto request = [](const char* gpus, int node) {
    return body_of({.gpus = gpus}, node)["HostConfig"]["DeviceRequests"];
  };
  const Json every = {{"gpu"}};
  EXPECT_EQ(request("all", 2), Json::array({{{"Driver", ""}, {"Count", -1}, {"Capabilities", every}}}));
  EXPECT_EQ(request("device=3,GPU-x", 2)[0]["DeviceIDs"], Json({"3", "GPU-x"}));
  EXPECT_EQ(request("2", 0)[0]["DeviceIDs"], Json({"0", "1"}));
  EXPECT_EQ(request("2", 2)[0]["DeviceIDs"], Json({"4", "5"}));
  EXPECT_FALSE(request("2", 0)[0].contains("Count"));
}

TEST(ContainerBody, IsInTheGivenNetwork) {
  const Json given = body_of({.network = "lab"});
  EXPECT_EQ(given["HostConfig"]["NetworkMode"], "lab");
  EXPECT_EQ(given["Hostname"], "node1");
  EXPECT_FALSE(given.contains("NetworkingConfig")) << "two jobs there would both have a node1";
  const Json host = body_of({.network = "host"});
  EXPECT_EQ(host["HostConfig"]["NetworkMode"], "host");
  EXPECT_FALSE(host.contains("Hostname")) << "it has the machine's name";
}

TEST(ContainerBody, TakesArgumentsAsDockerRunDoes) {
  const Json body = body_of({.arguments = {{"add-host", "a:10.0.0.1"},
                                           {"add-host", "b:10.0.0.2"},
                                           {"cap-add", "SYS_PTRACE"},
                                           {"cpuset-cpus", "0-1"},
                                           {"device", "/dev/fuse"},
                                           {"device", "/dev/a:/dev/b:r"},
                                           {"dns", "10.0.0.1"},
                                           {"group-add", "render"},
                                           {"ipc", "host"},
                                           {"label", "team=a=b"},
                                           {"label", "plain"},
                                           {"runtime", "nvidia"},
                                           {"security-opt", "seccomp=unconfined"},
                                           {"sysctl", "net.core.somaxconn=1024"},
                                           {"tmpfs", "/x:size=1m"},
                                           {"tmpfs", "/y"},
                                           {"ulimit", "memlock=-1"},
                                           {"ulimit", "nofile=16:32"}}});
  const Json& host = body["HostConfig"];
  EXPECT_EQ(host["ExtraHosts"], Json({"a:10.0.0.1", "b:10.0.0.2"}));
  EXPECT_EQ(host["CapAdd"], Json({"SYS_PTRACE"}));
  EXPECT_EQ(host["CapDrop"], Json({"ALL"}));
  EXPECT_EQ(host["CpusetCpus"], "0-1");
  EXPECT_EQ(
      host["Devices"][0],
      Json({{"PathOnHost", "/dev/fuse"}, {"PathInContainer", "/dev/fuse"}, {"CgroupPermissions", "rwm"}}));
  EXPECT_EQ(host["Devices"][1],
            Json({{"PathOnHost", "/dev/a"}, {"PathInContainer", "/dev/b"}, {"CgroupPermissions", "r"}}));
  EXPECT_EQ(host["Dns"], Json({"10.0.0.1"}));
  EXPECT_EQ(host["GroupAdd"], Json({"render"}));
  EXPECT_EQ(host["IpcMode"], "host");
  EXPECT_EQ(body["Labels"]["team"], "a=b");
  EXPECT_EQ(body["Labels"]["plain"], "");
  EXPECT_EQ(body["Labels"]["muster.job"], "j1");
  EXPECT_EQ(host["Runtime"], "nvidia");
  EXPECT_EQ(host["SecurityOpt"], Json({"no-new-privileges", "seccomp=unconfined"}));
  EXPECT_EQ(host["Sysctls"], Json({{"net.core.somaxconn", "1024"}}));
  EXPECT_EQ(host["Tmpfs"], Json({{"/x", "size=1m"}, {"/y", ""}}));
  EXPECT_EQ(host["Ulimits"][0], Json({{"Name", "memlock"}, {"Soft", -1}, {"Hard", -1}}));
  EXPECT_EQ(host["Ulimits"][1], Json({{"Name", "nofile"}, {"Soft", 16}, {"Hard", 32}}));
}

// The body supports exactly the names that --container-arg accepts.
TEST(ContainerBody, KnowsEachArgument) {
  const Json without = body_of({});
  for (const std::string_view name : kContainerArguments)
    EXPECT_NE(body_of({.arguments = {{std::string(name), "a=1"}}}), without) << name;
}

TEST(ContainerNetwork, IsTheJobsOwn) {
  const Json body = Json::parse(network_body(plan_of({}), "boot ns 7 8 here"));
  EXPECT_EQ(body["Name"], "muster-j1");
  EXPECT_EQ(body["Driver"], "bridge");
  EXPECT_EQ(body["Labels"], Json({{"muster.job", "j1"}, {"muster.launcher", "boot ns 7 8 here"}}));
  EXPECT_EQ(network_of(plan_of({}), kMachine), "muster-j1");
  EXPECT_EQ(network_of(plan_of({.network = "lab"}), kMachine), "lab");
  EXPECT_EQ(container_name(plan_of({}), NodeId(2)), "muster-j1-2");
}

TEST(ContainerNetwork, IsTheEnginesForASingleContainer) {
  ContainerSurroundings here = kMachine;
  here.has_bridge = true;
  EXPECT_EQ(network_of(plan_of({}), here), "muster-j1");
  Plan plan = plan_of({});
  plan.hosts.resize(1);
  EXPECT_EQ(network_of(plan, kMachine), "muster-j1") << "an engine without it";
  EXPECT_EQ(network_of(plan, here), "bridge");
  const Json body = Json::parse(container_body(plan, {NodeId(0), Incarnation(1)}, {}, here));
  EXPECT_EQ(body["HostConfig"]["NetworkMode"], "bridge");
  EXPECT_EQ(body["Hostname"], "node0");
  EXPECT_FALSE(body.contains("NetworkingConfig")) << "it does not resolve names";
  plan.remote.container.network = "lab";
  EXPECT_EQ(network_of(plan, here), "lab");
}

TEST(ContainerPlace, IsTheSameForJobsWithTheSameContainersOutsideOfTheirOwnNetworks) {
  const auto place = [](const char* job, ContainerOptions container) {
    container.network = "lab";
    Plan plan = plan_of(std::move(container));
    plan.job.job_id = job;
    return container_place(plan, NodeId(1), kMachine);
  };
  EXPECT_EQ(place("j1", {}), place("j2", {}));
  EXPECT_NE(place("j1", {}), place("j1", {.memory_bytes = 1}));
  EXPECT_NE(place("j1", {}), place("j1", {.mounts = {{"/data", "/data"}}}));
  EXPECT_EQ(container_place(plan_of({}), NodeId(1), kMachine), "") << "in the job's own network";
  const Json staying =
      Json::parse(container_body(plan_of({}), {NodeId(1), Incarnation(1)}, {"--stays"}, kMachine));
  EXPECT_FALSE(staying["Labels"].contains(kJobLabel)) << "the end of the job would remove it";
  EXPECT_EQ(staying["Labels"][kStaysLabel], "j1");
}

TEST(LauncherLabel, NamesTheLauncherAgain) {
  const ProcessIdentity own = own_identity();
  const auto again = parse_launcher_label(launcher_label(own));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->pid, own.pid);
  EXPECT_EQ(again->start_ticks, own.start_ticks);
  EXPECT_EQ(again->boot_id, own.boot_id);
  EXPECT_EQ(again->pid_namespace, own.pid_namespace);
  EXPECT_EQ(again->host, own.host);
  EXPECT_EQ(is_alive(*again), true);
  for (const char* other : {"", "a b c", "a b 1 2", "a b x 2 h", "a b 1 x h", "a b 1 2 h i"})
    EXPECT_FALSE(parse_launcher_label(other)) << other;
}

TEST(LabelFilter, IsPercentEncodedForTheApi) {
  EXPECT_EQ(label_filter({"muster.job=a b"}), "%7B%22label%22%3A%5B%22muster.job%3Da%20b%22%5D%7D");
  EXPECT_EQ(percent_encoded("aZ09-._~/?&\xff"), "aZ09-._~%2F%3F%26%FF");
}

TEST(ContainerAdvice, AnswersTheMessagesOfEngines) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"(could not select device driver "" with capabilities: [[gpu]])", "NVIDIA Container Toolkit"},
      {"error setting rlimits for ready process: error setting rlimit type 8: operation not permitted",
       "leave out the ulimit"},
      {"could not find an available, "
       "non-overlapping IPv4 address pool among the defaults to assign to the network",
       "docker network prune"},
      {"all predefined address pools have been fully subnetted", "docker network prune"},
      {R"(Conflict. The container name "/x" is already in use by container "1a")", "rename that container"},
      {"invalid mount config for type \"bind\": bind source path does not exist: /x", "create it"},
      {"No such image: x:latest", "name and tag"},
      {"manifest for x:1 not found: manifest unknown: manifest unknown", "name and tag"},
      {"Get https://r/v2/: unauthorized: authentication required", "docker login"},
      {"pull access denied for x, repository does not exist or may require 'docker login'", "docker login"},
      {"Get \"http://r/v2/x/manifests/1\": no basic auth credentials", "docker login"},
      {"denied: requested access to the resource is denied", "docker login"},
      {"Got permission denied while trying to connect to the Docker daemon socket at unix:///s",
       "group docker"},
      {"docker: Cannot connect to the Docker daemon at unix:///s. Is the docker daemon running?.",
       "start it"},
      {"sh: 1: exec: docker: not found", "install Docker"},
      {"Unknown runtime specified nvidia", "runtime's name"},
      {"exec /muster/bin/muster-agent: no such file or directory", "not Alpine"},
      {"exec /muster/bin/muster-agent: exec format error", "another processor"},
      {"unable to find user x: no matching entries in passwd file", "--container-user UID:GID"},
      {"/muster/bin/muster-agent: /lib/libc.so.6: version `GLIBC_2.34' not found", "newer image"},
  };
  for (const auto& [message, advice] : cases)
    EXPECT_THAT(container_advice(message), HasSubstr(advice)) << message;
  EXPECT_EQ(container_advice("something else"), "");
  EXPECT_EQ(container_advice("invalid mount config: permission denied").find("docker login"),
            std::string::npos)
      << "a directory is not a registry";
}

}  // namespace
}  // namespace muster::launcher
