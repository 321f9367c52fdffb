#include "launcher/core/settings/host_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launcher/core/settings/plan.h"
#include "launcher/core/settings/worker_environment.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

using Values = std::vector<std::pair<std::string, std::string>>;

const Surroundings kDesk{
    .environment = {{"HOME", "/home/ada"}, {"PATH", "/bin"}, {"NCCL_DEBUG", "INFO"}, {"HF_TOKEN", "hf_1"}},
    .working_directory = "/work",
    .hostname = "desk",
    .files = {{"F", "a slots=2\nb slots=4\nc slots=2\n"},
              {"V", "# mine\nDATA=/data\n  API_KEY='k 1'\r\nHF_TOKEN\nNONE\nEMPTY=\n"},
              {"BAD", "A=1\nhunter2 is it\n"}}};

Expected<Options> made_of(const Values& values, const Surroundings& here = kDesk) {
  Settings settings;
  for (const auto& [name, value] : values)
    EXPECT_TRUE(add_setting(settings, *find_flag(name), "--" + name, value));
  return make_options(settings, {"train"}, here);
}
std::string refused(const Values& values) {
  const auto options = made_of(values);
  return options ? "(no error)" : options.error().message();
}
Expected<Plan> planned(const Values& values) {
  auto options = made_of(values);
  if (!options) return std::unexpected(options.error());
  return make_plan(*options, {}, kDesk, "job");
}
// "nodes + spares: workers of each node".
std::string shape(const Values& values) {
  const auto plan = planned(values);
  if (!plan) return plan.error().message();
  std::string text = fmt::format("{}+{}:", plan->nodes.size(), plan->spare_nodes);
  for (std::int32_t node = 0; node < plan->agent_count(); ++node)
    text += fmt::format(" {}x{}", plan->hosts.at(static_cast<std::size_t>(node)).name,
                        plan->room_of(NodeId(node)));
  return text;
}

TEST(HostOptions, MakeANodeOfEachHostAndSparesOfTheRest) {
  EXPECT_EQ(shape({{"hosts", "a,b:2,c"}}), "3+0: ax1 bx2 cx1");
  EXPECT_EQ(shape({{"hosts", "a,b,c"}, {"nodes", "2"}}), "2+1: ax1 bx1 cx1");
  EXPECT_EQ(shape({{"hosts", "a,b,c"}, {"nodes", "1:2"}}), "2+1: ax1 bx1 cx1");
  EXPECT_EQ(shape({{"hosts", "a,b,c"}, {"nodes", "2:5"}}), "3+0: ax1 bx1 cx1");
  EXPECT_EQ(planned({{"hosts", "a,b,c"}, {"nodes", "2:5"}})->most_nodes(), 5);
  EXPECT_EQ(planned({{"hosts", "a,b,c"}, {"nodes", "2:5"}})->min_nodes, 2);
  EXPECT_EQ(planned({{"hosts", "a,b,c"}, {"nodes", "1:2"}})->most_nodes(), 2);
  EXPECT_EQ(shape({{"hosts", "a,b,c"}, {"spare-nodes", "1"}}), "2+1: ax1 bx1 cx1");
  EXPECT_EQ(shape({{"hosts", "a,b,c"}, {"nnodes", "2"}, {"spare-nodes", "1"}}), "2+1: ax1 bx1 cx1");
  EXPECT_EQ(shape({{"hostfile", "F"}, {"exclude", "b"}}), "2+0: ax2 cx2");
  EXPECT_EQ(shape({{"hosts", "a"}, {"hosts", "b"}}), "2+0: ax1 bx1");
}

TEST(HostOptions, UseSlotsWithoutANumberOfWorkers) {
  EXPECT_EQ(shape({{"hostfile", "F"}}), "3+0: ax2 bx4 cx2");
  EXPECT_EQ(shape({{"hostfile", "F"}, {"gpus-per-node", "3"}}), "3+0: ax3 bx3 cx3");
  EXPECT_EQ(shape({{"hostfile", "F"}, {"nproc-per-node", "3"}}), "3+0: ax3 bx3 cx3");
  const auto plan = planned({{"hostfile", "F"}});
  EXPECT_EQ(plan->world_size(), 8);
  EXPECT_EQ(plan->nodes[2].first_rank, Rank(6));
  EXPECT_THAT(shape({{"hosts", "a,b"}, {"gpus-per-node", "gpu"}}),
              StartsWith("--gpus-per-node: works only on this machine; for other hosts give a number"));
  EXPECT_THAT(shape({{"hosts", "n[1-1000]:1000"}}), HasSubstr("1000 nodes with 100000"));
  EXPECT_EQ(shape({{"hosts", "a,b"}, {"nproc-per-node", "5000"}}),
            "--nproc-per-node: 5000 workers on one node exceed the limit of 4096");
}

TEST(HostOptions, ChooseABootstrap) {
  EXPECT_EQ(made_of({})->remote.bootstrap, BootstrapKind::kLocal);
  EXPECT_EQ(made_of({{"hosts", "a"}})->remote.bootstrap, BootstrapKind::kSsh);
  const auto exec = made_of({{"hosts", "a"}, {"exec", "docker exec -i 'my {host}' \"\" a\\ b"}});
  EXPECT_EQ(exec->remote.bootstrap, BootstrapKind::kExec);
  EXPECT_THAT(exec->remote.exec, ElementsAre("docker", "exec", "-i", "my {host}", "", "a b"));
  EXPECT_THAT(made_of({{"hosts", "a"}, {"exec", "enter the only one"}})->remote.exec, SizeIs(4));
  EXPECT_EQ(planned({})->control, Control::kSocket);
  EXPECT_EQ(planned({{"hosts", "a"}})->control, Control::kAuto);
  EXPECT_EQ(planned({{"hosts", "a"}, {"control", "stdio"}})->control, Control::kStdio);
}

TEST(HostOptions, TakeTheOtherFlags) {
  const auto options = made_of({{"hosts", "a,b"},
                                {"ssh-parallel", "8"},
                                {"remote-agent", "/opt/agent"},
                                {"sync", "src/"},
                                {"connect-timeout", "3s"},
                                {"start-timeout", "1m"},
                                {"listen", "10.0.0.5,[fe80::1%eth0]"},
                                {"interface", "10.0.0.0/8"},
                                {"master-addr", "a"},
                                {"rdzv-endpoint", "a:29500"}});
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->remote.ssh_parallel, 8);
  EXPECT_EQ(options->remote.remote_agent, "/opt/agent");
  EXPECT_THAT(options->remote.sync, ElementsAre(testing::EndsWith("/src")));
  EXPECT_EQ(options->remote.connect_timeout, 3s);
  EXPECT_EQ(options->recovery.start_timeout, 60s);
  EXPECT_THAT(options->remote.listen, ElementsAre("10.0.0.5", "fe80::1%eth0"));
  EXPECT_EQ(options->remote.interface, "10.0.0.0/8");
  EXPECT_EQ(options->master_port, 29500);
}

TEST(HostOptions, RefuseContradictionsInOneLine) {
  const std::vector<std::pair<Values, const char*>> cases = {
      {{{"hosts", "a"}, {"hostfile", "F"}}, "--hostfile: --hosts also names hosts: give only one of them"},
      {{{"include", "a"}}, "--include: a needs a list of hosts to choose from: give --hosts or --hostfile"},
      {{{"hosts", "a,b"}, {"nodes", "3"}}, "--nodes: 3 nodes need a host each, but --hosts gives 2"},
      {{{"hosts", "a,b,c"}, {"nodes", "2"}, {"spare-nodes", "2"}},
       "--spare-nodes: 2 spare nodes do not match: 3 hosts for 2 nodes leave 1 spare; "
       "give that number, or leave it out"},
      {{{"hosts", "a,b"}, {"spare-nodes", "2"}}, "--spare-nodes: 2 of 2 hosts would leave none for nodes"},
      {{{"hosts", "a"}, {"bootstrap", "local"}},
       "--bootstrap: local starts all nodes on this machine, but --hosts names hosts"},
      {{{"bootstrap", "ssh"}}, "--bootstrap: ssh needs hosts: give --hosts or --hostfile"},
      {{{"bootstrap", "exec"}, {"hosts", "a"}},
       "--bootstrap: exec needs a command: give --exec 'lxc exec {host} --'"},
      {{{"bootstrap", "ssh"}, {"hosts", "a"}, {"exec", "env"}}, "--bootstrap: ssh does not use --exec"},
      {{{"bootstrap", "pdsh"}, {"hosts", "a"}}, "--bootstrap: pdsh is none of local, ssh, exec"},
      {{{"exec", "env"}}, "--exec: needs hosts to run a command on: give --hosts or --hostfile"},
      {{{"exec", "a 'b"}, {"hosts", "a"}}, "--exec: a 'b is not a command: give one that runs"},
      {{{"exec", " "}, {"hosts", "a"}}, "--exec: ' ' is not a command"},
      {{{"exec", "lxc exec node0 --"}, {"hosts", "a,b"}},
       "--exec: lxc exec node0 -- is the same command for all 2 hosts: put {host} where the host's name"},
      {{{"control", "socket"}, {"hosts", "a"}}, "--control: socket works only for agents on this machine"},
      {{{"sync", "/work"}}, "--sync: needs hosts to copy a directory to: give --hosts or --hostfile"},
      {{{"sync", "/"}, {"hosts", "a"}}, "--sync: / cannot be copied: give a path below /"},
      {{{"control", "stdio"}},
       "--control: stdio works only through a host shell: give --hosts or --hostfile"},
      {{{"ssh-parallel", "0"}, {"hosts", "a"}},
       "--ssh-parallel: 0 is not a number of host shells: give 1 or more"},
      {{{"remote-agent", "agent"}, {"hosts", "a"}}, "--remote-agent: agent is not an absolute path"},
      {{{"remote-agent", "/opt/it's/agent"}, {"hosts", "a"}},
       "--remote-agent: /opt/it's/agent cannot be passed to every shell"},
      {{{"listen", "desk"}, {"hosts", "a"}},
       "--listen: desk is not an address of this machine: give a numeric one"},
      {{{"interface", "10.0.0.0/40"}, {"hosts", "a"}},
       "--interface: 10.0.0.0/40 is not an interface: give its name"},
      {{{"interface", "-i"}, {"hosts", "a"}}, "--interface: -i is not an interface"},
      {{{"interface", "eth0"}, {"nodes", "2"}},
       "--interface: eth0 is for nodes on several hosts, but all nodes are on this machine: leave it out"},
      {{{"node-rank", "1"}, {"hosts", "a,b"}}, "--node-rank: 1 means that this is one of several launchers"},
      {{{"env-file", "BAD"}}, "--env-file: BAD line 2: expected NAME=VALUE"},
  };
  for (const auto& [values, answer] : cases) {
    EXPECT_THAT(refused(values), StartsWith(answer));
    EXPECT_THAT(refused(values), Not(HasSubstr("\n")));
  }
  EXPECT_THAT(refused({{"env-file", "BAD"}}), Not(HasSubstr("hunter2"))) << "it may be a secret";
}

TEST(HostOptions, TakeASlurmAllocationWhenHostsAreGiven) {
  Surroundings here = kDesk;
  here.environment["SLURM_NNODES"] = "4";
  EXPECT_FALSE(made_of({}, here));
  EXPECT_TRUE(made_of({{"hosts", "n[1-4]"}}, here));
}

TEST(HostOptions, AreShownInThePlan) {
  const auto plan =
      planned({{"hosts", "ada@a:22:2,[::1]:4,c"}, {"nodes", "2"}, {"env", "HF_TOKEN"}, {"env", "X=1"}});
  ASSERT_TRUE(plan) << plan.error().message();
  const std::string text = plan_as_text(*plan);
  EXPECT_THAT(text, AllOf(HasSubstr("bootstrap    ssh\n"), HasSubstr("control      auto\n"),
                          HasSubstr("node         host           workers      ranks\n"),
                          HasSubstr("node0        ada@a port 22  2            0-1\n"),
                          HasSubstr("node1        [::1]          4            2-5\n"),
                          HasSubstr("node2        c              - (1)        spare")));
  EXPECT_THAT(text, AllOf(HasSubstr("passed on    NCCL_DEBUG PATH\n"), HasSubstr("HF_TOKEN=***\n"),
                          HasSubstr("X=1\n"), Not(HasSubstr("hf_1"))));
  const auto json = nlohmann::json::parse(plan_as_json(*plan));
  EXPECT_EQ(json["hosts"][0].dump(),
            R"({"host":"a","node":0,"port":22,"slots":2,"spare":false,"user":"ada"})");
  EXPECT_EQ(json["hosts"][2].dump(),
            R"({"host":"c","node":2,"port":null,"slots":1,"spare":true,"user":null})");
  EXPECT_EQ(json["bootstrap"], "ssh");
  EXPECT_EQ(json["environment"]["HF_TOKEN"], "***");
  EXPECT_EQ(plan->job.environment.at("HF_TOKEN"), "hf_1") << "the workers get it";
}

TEST(WorkerEnvironment, IsPassedToOtherHostsByName) {
  const auto passed = passed_environment({{"PATH", "/bin"},
                                          {"PYTHONPATH", "/p"},
                                          {"LC_ALL", "C"},
                                          {"NCCL_DEBUG", "INFO"},
                                          {"CUDA_HOME", "/cuda"},
                                          {"CUDA_VISIBLE_DEVICES", "0"},
                                          {"HF_TOKEN", "t"},
                                          {"WANDB_API_KEY", "k"},
                                          {"TORCHELASTIC_RUN_ID", "x"},
                                          {"HOME", "/home/ada"},
                                          {"SSH_AUTH_SOCK", "/s"},
                                          {"PATHOLOGY", "x"}});
  std::vector<std::string> names;
  for (const auto& [name, value] : passed) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("CUDA_HOME", "LC_ALL", "NCCL_DEBUG", "PATH", "PYTHONPATH"));
  EXPECT_TRUE(made_of({})->remote.passed.empty()) << "local workers inherit the variables";
}

TEST(WorkerEnvironment, KnowsSecretsByTheirNames) {
  for (const char* name :
       {"HF_TOKEN", "my_secret", "PGPASSWORD", "X_PASSWD_1", "AWS_CREDENTIALS", "API_KEY", "api_key"}) {
    EXPECT_TRUE(is_secret(name)) << name;
    EXPECT_EQ(shown_value(name, "x"), "***");
  }
  for (const char* name : {"PATH", "KEYBOARD", "KEY", "X_KEYS", "TOKE"})
    EXPECT_FALSE(is_secret(name)) << name;
}

TEST(WorkerEnvironment, ComesFromFilesAndFlags) {
  const auto options = made_of({{"env-file", "V"}, {"env", "DATA=/mine"}});
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->added,
            (std::map<std::string, std::string>{
                {"API_KEY", "'k 1'"}, {"DATA", "/mine"}, {"EMPTY", ""}, {"HF_TOKEN", "hf_1"}}));
}

TEST(HostOptions, TellTheAgentsTheInterfaceThatTheUserNames) {
  EXPECT_EQ(planned({{"hosts", "a,b"}, {"interface", "eth1"}})->job.interface, "eth1");
  EXPECT_EQ(planned({{"hosts", "a,b"}, {"interface", "10.0.0.0/8"}})->job.interface, "10.0.0.0/8");
  EXPECT_EQ(planned({{"hosts", "a,b"}})->job.interface, "");
}

}  // namespace
}  // namespace muster::launcher
