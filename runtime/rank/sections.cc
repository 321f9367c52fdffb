#include "runtime/rank/sections.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"

namespace muster {
namespace {

constexpr Duration kInterval = std::chrono::milliseconds(20);  // for each section's two datagrams
constexpr Duration kBurst = 50 * kInterval;

struct Open {
  std::uint64_t id = 0;
  std::string name;
  TimePoint since;
  StepTime::Token step_part = 0;
  bool told = false;
};

struct Sections {
  std::mutex mutex;
  std::vector<Open> open;
  std::uint64_t last_id = 0;
  const void* owner = nullptr;
  SectionListener listener;
  TimePoint paid_until;  // a report moves it on by kInterval, at most kBurst ahead
};

Sections& sections() {
  static auto* all = new Sections;  // never destroyed: a Job in static storage may outlive it otherwise
  return *all;
}

}  // namespace

void listen_to_sections(const void* owner, SectionListener listener) {
  Sections& all = sections();
  const std::scoped_lock lock(all.mutex);
  all.owner = owner;
  all.listener = std::move(listener);
}

void stop_listening_to_sections(const void* owner) {
  Sections& all = sections();
  const std::scoped_lock lock(all.mutex);
  if (all.owner == owner) all.listener = nullptr;
}

std::uint64_t enter_section(std::string_view name) {
  Sections& all = sections();
  const TimePoint now = Clock::now();
  const std::scoped_lock lock(all.mutex);
  Open& section = all.open.emplace_back(++all.last_id, std::string(name), now, step_time().begin(name, now));
  // If sections follow each other too fast, their beginnings are not reported. If such a section lasts, the
  // heartbeat reports it.
  const TimePoint paid = std::max(now, all.paid_until) + kInterval;
  if (all.listener && paid - now <= kBurst && all.listener({section.name, true})) {
    all.paid_until = paid;
    section.told = true;
  }
  return section.id;
}

void leave_section(std::uint64_t id) {
  Sections& all = sections();
  const std::scoped_lock lock(all.mutex);
  const auto section = std::ranges::find(all.open, id, &Open::id);
  if (section == all.open.end()) return;
  TraceFile* const trace = trace_file();
  if (!end_step_part(section->step_part) && trace != nullptr)
    trace->add(TraceTrack::kSections, section->name, section->since, Clock::now());
  if (section->told && all.listener) all.listener({section->name, false});
  all.open.erase(section);
}

void with_innermost_section(
    const std::function<void(const std::string& name, std::chrono::milliseconds)>& use) {
  Sections& all = sections();
  const TimePoint now = Clock::now();
  const std::scoped_lock lock(all.mutex);
  if (all.open.empty()) return use("", {});
  Open& innermost = all.open.back();
  innermost.told = true;
  use(innermost.name, std::chrono::duration_cast<std::chrono::milliseconds>(now - innermost.since));
}

}  // namespace muster
