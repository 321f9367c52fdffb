#include "agent/core/health/worker_report.h"

#include <gmock/gmock.h>
#include <limits>

namespace muster::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using wire::ReportKind;

wire::WorkerReported step(std::int32_t rank, std::int64_t number) {
  return {Rank(rank), ReportKind::kStep, number, ""};
}

std::vector<std::string> words(const std::vector<wire::WorkerReported>& reports) {
  std::vector<std::string> found;
  for (const auto& report : reports) {
    found.push_back(std::to_string(report.rank.value()) + " " + std::string(name_of(report.kind)) + " " +
                    std::to_string(report.step));
  }
  return found;
}

TEST(ParseReport, ReadsADatagram) {
  const auto report =
      parse_report(R"({"v":1,"type":"committed","rank":3,"attempt":7,"step":400,"pid":99,"text":"x"})");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->attempt, Attempt(7));
  EXPECT_EQ(report->message.rank, Rank(3));
  EXPECT_EQ(report->message.kind, ReportKind::kCommitted);
  EXPECT_EQ(report->message.step, 400);
  EXPECT_EQ(report->message.text, "x");
}

TEST(ParseReport, KnowsEveryKindByItsName) {
  for (const auto& [kind, name] : wire::Words<ReportKind>::kAll) {
    const auto report = parse_report(fmt::format(
        R"({{"v":1,"type":"{}","rank":0,"attempt":1,"steps":1,"parts_ms":{{}},"name":"a","state":"enter","bytes":9,"pid":7,"values":{{}}}})",
        name));
    ASSERT_TRUE(report) << name;
    EXPECT_EQ(report->message.kind, kind);
    const bool is_for_agent = name == "section" || name == "idle" || name == "stacks" ||
                              name == "memory_slots" || name == "held" || name == "last_line";
    EXPECT_EQ(is_for_launcher(*report), !is_for_agent) << name;
    EXPECT_EQ(report->pid, name == "last_line" ? 7 : 0) << name;
    EXPECT_EQ(report->slot_bytes, name == "memory_slots" ? 9u : 0u) << name;
  }
}

TEST(ParseReport, AcceptsAnyNumberForTheTimeOfAStep) {
  const auto busy = [](const std::string& value) {
    const auto report = parse_report(R"({"v":1,"type":"step","rank":0,"attempt":1,"busy_ms":)" + value + "}");
    return report ? report->message.busy_ns : -1;
  };
  EXPECT_EQ(busy("130.25"), 130'250'000);
  EXPECT_EQ(busy("7"), 7'000'000);
  EXPECT_EQ(busy("-5"), 0);
  EXPECT_EQ(busy("1e300"), 1'000'000'000'000'000);
  EXPECT_EQ(busy("18446744073709551615"), 1'000'000'000'000'000);
  for (const char* wrong : {R"("100")", "true", "null", "[1]", "1e999"}) EXPECT_EQ(busy(wrong), -1) << wrong;
}

TEST(ParseReport, ReadsTheGroupOfAStep) {
  const auto group = [](const std::string& fields) {
    const auto report = parse_report(R"({"v":1,"rank":0,"attempt":1,)" + fields + "}");
    return report ? report->message.group : "no report";
  };
  EXPECT_EQ(group(R"("type":"step","step":3)"), "");
  EXPECT_EQ(group(R"("type":"step","step":3,"group":"left\u001b")"), "left?");
  EXPECT_EQ(group(R"("type":"step","step":3,"group":")" + std::string(200, 'g') + "\""),
            std::string(128, 'g'));
  EXPECT_EQ(group(R"("type":"step","step":3,"group":7)"), "no report");
  EXPECT_EQ(group(R"("type":"heartbeat","step":3,"group":"left")"), "");
}

TEST(ParseReport, ReadsHowStepsSpentTheirTime) {
  const auto parse = [](const std::string& fields) {
    return parse_report(R"({"v":1,"type":"profile","rank":0,"attempt":1,)" + fields + "}");
  };
  const auto report = parse(R"("steps":70,"parts_ms":{"data":1.5,"my \n eval":2,"wrong":-1})");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message.step, 70);
  const std::map<std::string, std::int64_t> expected{
      {"data", 1'500'000}, {"my ? eval", 2'000'000}, {"wrong", 0}};
  EXPECT_EQ(report->message.parts_ns, expected);
  std::string many = R"("a":1)";
  for (int i = 0; i < 16; ++i) many += R"(,")" + std::to_string(i) + R"(":1)";
  for (const std::string& wrong :
       {std::string(R"("parts_ms":{})"), std::string(R"("steps":1)"),
        std::string(R"("steps":-1,"parts_ms":{})"), std::string(R"("steps":1.5,"parts_ms":{})"),
        std::string(R"("steps":1,"parts_ms":{"data":"1"})"), R"("steps":1,"parts_ms":{)" + many + "}"})
    EXPECT_FALSE(parse(wrong)) << wrong;
}

std::optional<std::map<std::string, double>> values_of(const std::string& fields) {
  const auto report =
      parse_report(R"({"v":1,"type":"metric","rank":0,"attempt":1,"pid":7,"step":3)" + fields + "}");
  if (!report) return std::nullopt;
  EXPECT_EQ(report->message.step, 3);
  return report->message.values;
}

TEST(ParseReport, ReadsTheValuesOfMetrics) {
  const auto values = values_of(
      R"(,"values":{"val_loss":0.12,"n":7,"train/loss.max-2":"inf","_low":"-inf","diverged":"nan"})");
  ASSERT_TRUE(values);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(*values,
              ElementsAre(Pair("_low", -kInfinity), Pair("diverged", testing::IsNan()), Pair("n", 7.0),
                          Pair("train/loss.max-2", kInfinity), Pair("val_loss", 0.12)));
  EXPECT_TRUE(values_of(R"(,"values":{")" + std::string(128, 'a') + R"(":1})"));
}

TEST(ParseReport, RefusesAMetricWithAWrongNameOrValue) {
  for (const char* value : {R"("0.5")", R"("NaN")", R"("")", "null", "true", "[1]", R"({"a":1})", "1e999"})
    EXPECT_FALSE(values_of(fmt::format(R"(,"values":{{"loss":{}}})", value))) << value;
  for (const std::string& name : {std::string(), std::string("val loss"), std::string("2nd"),
                                  std::string("/loss"), std::string("acc@1"), std::string(129, 'a')})
    EXPECT_FALSE(values_of(fmt::format(R"(,"values":{{"{}":1}})", name))) << name;
  for (const char* fields : {"", R"(,"values":[1])", R"(,"values":3)", R"(,"values":null)"})
    EXPECT_FALSE(values_of(fields)) << fields;
  std::string many = R"(,"values":{"a":1)";
  for (int i = 1; i < 64; ++i) many += fmt::format(R"(,"a{}":1)", i);
  EXPECT_TRUE(values_of(many + "}"));
  EXPECT_FALSE(values_of(many + R"(,"a64":1})"));
}

TEST(ParseReport, RefusesGarbage) {
  const std::string deep(kMaxReportBytes, '[');
  const std::string long_text =
      R"({"v":1,"type":"step","rank":0,"attempt":1,"text":")" + std::string(kMaxReportBytes, 'a') + "\"}";
  for (const std::string& datagram :
       {std::string(), std::string("\xff\xfe"), std::string("[]"), std::string("null"), std::string("{}"),
        deep, long_text, std::string(R"({"v":2,"type":"step","rank":0,"attempt":1})"),
        std::string(R"({"v":1,"type":"shout","rank":0,"attempt":1})"),
        std::string(R"({"v":1,"type":"step","rank":"zero","attempt":1})"),
        std::string(R"({"v":1,"type":"step","rank":0})"),
        std::string(R"({"v":1,"type":"step","rank":0,"attempt":1e300})"),
        std::string(R"({"v":1,"type":"step","rank":4294967296,"attempt":1})"),
        std::string(R"({"v":1,"type":"step","rank":0,"attempt":-1})"),
        std::string(R"({"v":1,"type":"step","rank":0,"attempt":1,"step":9223372036854775808})"),
        std::string(R"({"v":1,"type":"step","rank":0,"attempt":1,"step":-1})"),
        std::string(R"({"v":1,"type":"resumed","rank":0,"attempt":1,"step":-9223372036854775808})"),
        std::string(R"({"v":1,"type":"heartbeat","rank":0,"attempt":1,"step":-2})"),
        std::string(R"({"v":1,"type":"step","rank":0,"attempt":1,"text":5})")}) {
    EXPECT_FALSE(parse_report(datagram)) << datagram.substr(0, 80);
  }
}

TEST(Reports, PassesTheFirstStepOnAndThenTheNewestOfEachInterval) {
  Reports reports;
  const TimePoint now{1000s};
  EXPECT_THAT(words(reports.on(step(0, 1), now)), ElementsAre("0 step 1"));
  EXPECT_EQ(reports.next_deadline(), std::nullopt);
  EXPECT_THAT(reports.on(step(0, 2), now + 10ms), IsEmpty());
  EXPECT_THAT(reports.on(step(0, 3), now + 20ms), IsEmpty());
  EXPECT_THAT(reports.on({Rank(0), ReportKind::kHeartbeat, 3, ""}, now + 30ms), IsEmpty());
  EXPECT_EQ(reports.next_deadline(), now + 100ms);
  EXPECT_THAT(reports.due(now + 99ms), IsEmpty());
  EXPECT_THAT(words(reports.due(now + 100ms)), ElementsAre("0 step 3"));
  EXPECT_EQ(reports.next_deadline(), std::nullopt);
}

TEST(Reports, DoesNotLetOneRankWaitForAnother) {
  Reports reports;
  const TimePoint now{1000s};
  EXPECT_THAT(words(reports.on(step(0, 1), now)), ElementsAre("0 step 1"));
  EXPECT_THAT(words(reports.on(step(1, 1), now + 1ms)), ElementsAre("1 step 1"));
}

TEST(Reports, PassesEventsOnAtOnceAfterHeldBackProgress) {
  Reports reports;
  const TimePoint now{1000s};
  reports.on(step(0, 1), now);
  reports.on(step(0, 2), now);
  EXPECT_THAT(words(reports.on({Rank(0), ReportKind::kCommitted, 2, ""}, now)),
              ElementsAre("0 step 2", "0 committed 2"));
}

TEST(Reports, PassesEveryMetricOnAtOnceAndInOrder) {
  Reports reports;
  const TimePoint now{1000s};
  reports.on(step(0, 1), now);
  reports.on(step(0, 2), now);
  EXPECT_THAT(words(reports.on({Rank(0), ReportKind::kMetric, 2, ""}, now)),
              ElementsAre("0 step 2", "0 metric 2"));
  EXPECT_THAT(words(reports.on({Rank(0), ReportKind::kMetric, 2, ""}, now)), ElementsAre("0 metric 2"));
  EXPECT_THAT(words(reports.on({Rank(0), ReportKind::kMetric, 1, ""}, now)), ElementsAre("0 metric 1"));
}

TEST(Reports, DropsAndCountsReportsForASlowLauncherExceptDecisiveOnes) {
  Reports reports;
  EXPECT_TRUE(reports.admit(step(0, 3), false));
  EXPECT_FALSE(reports.admit(step(0, 4), true));
  EXPECT_FALSE(reports.admit({Rank(0), ReportKind::kResumed, 1, ""}, true));
  for (const auto kind : {ReportKind::kHello, ReportKind::kCommitted, ReportKind::kPreempted,
                          ReportKind::kFenced, ReportKind::kMetric}) {
    EXPECT_TRUE(reports.admit({Rank(0), kind, 1, "x"}, true)) << name_of(kind);
    EXPECT_TRUE(reports.admit({Rank(1), kind, 1, "x"}, true)) << name_of(kind);
  }
  EXPECT_EQ(reports.dropped_count(), 2U);
}

TEST(Reports, ReportsOfARankThatFloodsTheLauncherAreDroppedInTheEnd) {
  Reports reports;
  int admitted = 0;
  for (int i = 0; i < 10 * Reports::kMostInSpite; ++i)
    admitted += reports.admit({Rank(0), ReportKind::kCommitted, i, ""}, true);
  EXPECT_EQ(admitted, Reports::kMostInSpite);
  EXPECT_TRUE(reports.admit({Rank(1), ReportKind::kCommitted, 1, ""}, true));
}

TEST(Reports, ReturnsHeldBackProgressWhenTheWorkerEnds) {
  Reports reports;
  const TimePoint now{1000s};
  reports.on(step(0, 1), now);
  reports.on(step(0, 2), now);
  EXPECT_THAT(words(reports.take(Rank(0))), ElementsAre("0 step 2"));
  EXPECT_THAT(reports.take(Rank(0)), IsEmpty());
  EXPECT_THAT(reports.take(Rank(9)), IsEmpty());
}

}  // namespace
}  // namespace muster::agent
