#include "launcher/core/view/host_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launcher/core/text/table.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

HostReport report_of(const std::string& host, const std::string& other) {
  HostReport report{.host = host, .control = "tcp", .version = "1.2"};
  report.found.torch = "2.11.0";
  report.found.log_free_bytes = 3LL << 30;
  report.clock_offset = -1500us;
  report.links = {{.host = other, .address = "10.0.0.9", .time = 250us}};
  return report;
}

class HostTable : public testing::Test {
 protected:
  std::vector<HostReport> reports_{report_of("h0", "h1"), report_of("h1", "h0")};
  HostDemand demand_{.program = true};
};

TEST_F(HostTable, HasALineForEachHostAndNoMatrixIfAllLinksWork) {
  EXPECT_THAT(obstacles(reports_, demand_), ElementsAre());
  EXPECT_EQ(hosts_as_table(reports_, demand_),
            "host  reach  agent  program  torch   GPUs  clock     logs\n"
            "h0    tcp    1.2    ok       2.11.0  0     -0.002 s  3.0 GiB free\n"
            "h1    tcp    1.2    ok       2.11.0  0     -0.002 s  3.0 GiB free\n"
            "\nlinks: 2 of 2 work, in 0.2 ms to 0.2 ms\n");
  EXPECT_TRUE(nlohmann::json::parse(hosts_as_json(reports_, demand_))["fit"]);
}

TEST_F(HostTable, NamesObstaclesAndShowsTheLinks) {
  reports_[0].links[0].error = "Connection timed out";
  reports_[1].found.program_error = "no train";
  reports_.push_back({.host = "h2", .unreachable = "host h2: no answer within 10 s"});
  EXPECT_THAT(obstacles(reports_, demand_),
              ElementsAre("h0: does not reach h1 at 10.0.0.9: Connection timed out", "h1: no train",
                          "h2: no answer within 10 s"));
  const std::string table = hosts_as_table(reports_, demand_);
  EXPECT_THAT(table, HasSubstr("\nh2    FAIL\n"));
  EXPECT_THAT(table, HasSubstr("links: 1 of 2 work"));
  EXPECT_THAT(table, HasSubstr("from  h0      h1  h2\nh0    .       -   .\nh1    0.2 ms  .   .\n"));
  EXPECT_THAT(table, HasSubstr("FAIL  h1: no train\n"));
  demand_.checkpoint_directory = "/shared/ckpt";
  const std::string narrow = hosts_as_table(reports_, demand_, 60);
  EXPECT_TRUE(fits(narrow, 60)) << narrow;
  EXPECT_THAT(narrow, HasSubstr("checkpoints"));
  EXPECT_FALSE(nlohmann::json::parse(hosts_as_json(reports_, demand_))["fit"]);
}

TEST_F(HostTable, CheckpointsNeedNotBeSharedByOneHost) {
  demand_.checkpoint_directory = "/ckpt";
  reports_[1].found.checkpoint_error = "is a different directory there";
  EXPECT_THAT(obstacles(reports_, demand_),
              ElementsAre("h1: --checkpoint-dir: /ckpt is a different directory there"));
  reports_.erase(reports_.begin());
  reports_[0].links.clear();
  EXPECT_THAT(obstacles(reports_, demand_), ElementsAre());
  EXPECT_THAT(hosts_as_table(reports_, demand_), Not(HasSubstr("links")));
}

}  // namespace
}  // namespace muster::launcher
