#include "launcher/core/settings/hosts.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "common/base/text.h"

namespace muster::launcher {
namespace {

using testing::HasSubstr;

std::string text_of(const Expected<std::vector<Host>>& hosts) {
  if (!hosts) return hosts.error().message();
  std::string text;
  for (const Host& host : *hosts) {
    text += text.empty() ? "" : " ";
    text += address_of(host);
    if (host.port != 0) text += fmt::format(" port {}", host.port);
    if (host.slots) text += fmt::format(" x{}", *host.slots);
  }
  return text;
}
std::string hosts(std::string_view text) {
  return text_of(parse_hosts(text, "--hosts"));
}
std::string file(std::string_view text) {
  return text_of(parse_hostfile(text, "--hostfile: F"));
}
std::string chosen(std::string_view all, std::optional<std::string> include,
                   std::optional<std::string> exclude) {
  std::optional<HostNames> in;
  std::optional<HostNames> out;
  if (include) in = {"--include", *include};
  if (exclude) out = {"--exclude", *exclude};
  return text_of(choose_hosts(*parse_hosts(all, "--hosts"), in, out));
}

TEST(Hosts, HaveUserPortAndSlots) {
  EXPECT_EQ(hosts("a"), "a");
  EXPECT_EQ(hosts("a,b:4,ada@c.example.org:2222:8"), "a b x4 ada@c.example.org port 2222 x8");
  EXPECT_EQ(hosts("[::1],[fe80::1%eth0]:2,root@[2001:db8::7]:22:1"),
            "::1 fe80::1%eth0 x2 root@2001:db8::7 port 22 x1");
  EXPECT_EQ(hosts("10.0.0.7:2"), "10.0.0.7 x2");
}

TEST(Hosts, HaveRangesThatKeepTheirZeros) {
  EXPECT_EQ(hosts("n[0-3]"), "n0 n1 n2 n3");
  EXPECT_EQ(hosts("n[08-11,15]:2"), "n08 x2 n09 x2 n10 x2 n11 x2 n15 x2");
  EXPECT_EQ(hosts("ada@r[0-1]n[00-01].lan,m"), "ada@r0n00.lan ada@r0n01.lan ada@r1n00.lan ada@r1n01.lan m");
  EXPECT_EQ(hosts("n[9-10]"), "n9 n10");
}

TEST(Hosts, AddUpTheSlotsOfAHostThatIsListedSeveralTimes) {
  EXPECT_EQ(hosts("a,b,a"), "a x2 b");
  EXPECT_EQ(hosts("a:4,a:2"), "a x6");
  EXPECT_EQ(hosts("n[0-2],n1"), "n0 n1 x2 n2");
  EXPECT_EQ(file("a\na\na\nb\n"), "a x3 b") << "a line for each slot, as PBS writes it";
  EXPECT_EQ(hosts("a,ada@a"), "--hosts: 'ada@a': expected the same user and port that a had before");
}

TEST(Hosts, ReportErrorsInOneLine) {
  for (const char* bad : {"",
                          ",",
                          "a,,b",
                          "-oProxyCommand=x",
                          "a b",
                          "a;b",
                          "$(x)",
                          "a:0",
                          "a:-1",
                          "a:x",
                          "a:22:",
                          "a:0:1",
                          "a:65536:1",
                          "a:1:2:3",
                          "@a",
                          "-x@a",
                          "a@b@c",
                          "fe80::1",
                          "[::1",
                          "[::1]x",
                          "[]",
                          "n[",
                          "n[]",
                          "n[1",
                          "n[3-1]",
                          "n[a-b]",
                          "n[1-]",
                          "n[-1]",
                          "n[0-9999999999]",
                          "n]",
                          "\xc3\xa4",
                          "a\nb",
                          "a'b",
                          "[-::1]"}) {
    const std::string error = hosts(bad);
    EXPECT_THAT(error, testing::StartsWith("--hosts: '")) << bad;
    EXPECT_THAT(error, HasSubstr("': expected ")) << bad;
    EXPECT_THAT(error, testing::Not(HasSubstr("\n"))) << bad;
  }
  EXPECT_EQ(hosts("n[3-1]"),
            "--hosts: 'n[3-1]': expected numbers or ranges in brackets, low-high, at most 100000 names: "
            "n[0-3] or n[01-12,15]");
  for (const char* bad : {"h0@:x", ":22:2", "h0@n[1:2"})
    EXPECT_THAT(hosts(std::string("h0:2,") + bad),
                testing::StartsWith(fmt::format("--hosts: '{}': expected ", bad)));
  EXPECT_LT(hosts(std::string(10'000, 'x')).size(), 400U);
}

TEST(Hosts, AreNamedInOneListWithRanges) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"h2", "h0", "h1", "login", "h7"}, "h[0-2,7],login"},
      {{"n1.a", "n2.b", "n2.a"}, "n[1-2].a,n2.b"},
      {{"n08", "n09"}, "n[08-09]"},
      {{"a", "10.0.0.1", "10.0.0.2", "fd77::10", "7"}, "a,10.0.0.1,10.0.0.2,[fd77::10],7"}};
  for (const auto& [names, text] : cases) {
    EXPECT_EQ(folded(names), text);
    std::set<std::string> again;
    for (const Host& host : parse_hosts(text, "--hosts").value()) again.insert(host.name);
    EXPECT_EQ(again, std::set<std::string>(names.begin(), names.end()));
  }
}

TEST(Hosts, HaveAtMostAsManySlotsAsAnAgentAcceptsWorkers) {
  EXPECT_EQ(parse_hosts("a:4096", "--hosts")->front().slots, kMostSlots);
  for (const char* more : {"a:4097", "a:22:4097", "a:5000,a:1", "a:4096,a:1"})
    EXPECT_THAT(hosts(more), HasSubstr("at most")) << more;
}

TEST(Hosts, AreAtMostAHundredThousand) {
  EXPECT_EQ(parse_hosts("n[1-100000]", "--hosts")->size(), 100'000U);
  EXPECT_THAT(hosts("n[0-100000]"), HasSubstr("at most"));
  EXPECT_THAT(hosts("n[0-999][0-999]"), HasSubstr("at most"));
  EXPECT_THAT(hosts("n[1-100000],m"), HasSubstr("--hosts: 'm': expected at most 100000 hosts"));
  EXPECT_THAT(hosts("n[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]"), HasSubstr("at most"));
}

TEST(Hostfile, IsReadInTheFormatsOfOtherLaunchers) {
  EXPECT_EQ(file("# Open MPI\n\nh1 slots=2 max_slots=4\nh2  slots = 3 # the new one\r\nh3 max-slots=5\n"),
            "h1 x2 h2 x3 h3 x5");
  EXPECT_EQ(file("worker-1 slots=4\nworker-2 slots=4"), "worker-1 x4 worker-2 x4") << "DeepSpeed";
  EXPECT_EQ(file("h1:2\nh2:4\n"), "h1 x2 h2 x4") << "MPICH";
  EXPECT_EQ(file("n[0-2],m1\n\tk\n"), "n0 n1 n2 m1 k") << "Slurm";
  EXPECT_EQ(file("ada@n[0-1]:2222:3\n[::1] slots=2"), "ada@n0 port 2222 x3 ada@n1 port 2222 x3 ::1 x2");
}

TEST(Hostfile, ReportsErrorsWithTheirLine) {
  EXPECT_THAT(file("a\n\n-x\n"), testing::StartsWith("--hostfile: F line 3: '-x': expected HOST, "));
  EXPECT_THAT(file("a slots=x"),
              testing::StartsWith("--hostfile: F line 1: 'slots=x': expected a line as Open MPI"));
  EXPECT_THAT(file("a slots=2 slots=3"), HasSubstr("'slots=3'"));
  EXPECT_THAT(file("a:2 slots=3"), HasSubstr("'slots=3'"));
  EXPECT_THAT(file("a 2"), HasSubstr("'2'"));
  EXPECT_THAT(file("a gpus=2"), HasSubstr("'gpus=2'"));
  EXPECT_THAT(file("a slots="), HasSubstr("'slots='"));
  EXPECT_THAT(file("a slots=3 max_slots=2"), HasSubstr("'slots=3': expected at most max_slots=2"));
  EXPECT_THAT(file("^a"), HasSubstr("'^a'"));
  EXPECT_THAT(file("# nothing\n"), testing::StartsWith("--hostfile: F names no hosts: expected "));
}

TEST(Hosts, AreChosenByNamesAndRanges) {
  EXPECT_EQ(chosen("n[0-5],m", "n[4-5],m,n0", std::nullopt), "n0 n4 n5 m") << "in the order of the list";
  EXPECT_EQ(chosen("n[0-5]", std::nullopt, "n[1-4]"), "n0 n5");
  EXPECT_EQ(chosen("n[0-5]", "n[0-3]", "n1"), "n0 n2 n3");
  EXPECT_EQ(chosen("worker-1,worker-2", "worker-3", std::nullopt),
            "--include: 'worker-3': expected a host of the list: did you mean worker-1?");
  EXPECT_EQ(chosen("a", std::nullopt, "zzzz"), "--exclude: 'zzzz': expected a host of the list, such as a");
  EXPECT_EQ(chosen("a,b", "a:2", std::nullopt),
            "--include: 'a:2': expected only the name of a host in the list");
  EXPECT_EQ(chosen("a,b", std::nullopt, "a,b"), "--exclude: a,b leaves none of 2 hosts: give fewer names");
}

}  // namespace
}  // namespace muster::launcher
