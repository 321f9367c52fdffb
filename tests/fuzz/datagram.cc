// Any bytes that a worker may send to MUSTER_SOCKET. An accepted report can be passed on.
#include <algorithm>
#include <cmath>

#include "agent/core/health/worker_report.h"
#include "common/base/check.h"
#include "common/wire/codec.h"
#include "tests/fuzz/input.h"

namespace muster::agent {
namespace {

// NaN is the same as NaN.
bool is_same(const std::pair<const std::string, double>& a, const std::pair<const std::string, double>& b) {
  return a.first == b.first && (a.second == b.second || (std::isnan(a.second) && std::isnan(b.second)));
}

void pass_on(const wire::WorkerReported& report) {
  std::vector<wire::Frame> frames;
  wire::FrameReader reader;
  CHECK(reader.feed(wire::encode(wire::FrameHeader{}, report), frames).has_value() && frames.size() == 1);
  const auto heard = wire::decode_for_launcher(frames[0]);
  CHECK(heard.has_value(), "{}", heard.error().message());
  const auto& same = std::get<wire::WorkerReported>(*heard);
  CHECK(same.rank == report.rank && same.kind == report.kind && same.step == report.step &&
        same.text == report.text && same.busy_ns == report.busy_ns && same.parts_ns == report.parts_ns &&
        std::ranges::equal(same.values, report.values, is_same));
}

}  // namespace
}  // namespace muster::agent

// The input is datagrams, one per line, 40 ms apart.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  agent::Reports reports;
  TimePoint now{};
  while (!input.empty()) {
    const auto report = agent::parse_report(input.until('\n'));
    now += std::chrono::milliseconds(40);
    if (!report || !agent::is_for_launcher(*report)) continue;
    for (const auto& passed : reports.on(report->message, now)) agent::pass_on(passed);
    if (const auto next = reports.next_deadline())
      CHECK(*next <= now + agent::Reports::kInterval, "held back for too long");
  }
  return 0;
}
