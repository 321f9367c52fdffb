// Reads a trace as ui.perfetto.dev does, and checks it against the Trace Event Format: each event has what
// its kind needs, processes and tracks have names, and the spans of a track follow each other or are nested.
//
// Test failures name the event that breaks a rule.
#pragma once

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster {

struct TracedSpan {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  nlohmann::json arguments{};
};

class ReadTrace {
 public:
  explicit ReadTrace(const std::string& text) {
    const auto trace = nlohmann::json::parse(text, nullptr, false);
    if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
      ADD_FAILURE() << "no trace: " << text.substr(0, 500);
      return;
    }
    for (const auto& event : trace["traceEvents"]) {
      if (event.at("ph") == "M") read_name(event);
    }
    for (const auto& event : trace["traceEvents"]) {
      if (event.at("ph") != "M") read(event);
    }
  }

  std::vector<std::string> processes() const {
    std::vector<std::string> names;
    for (const auto& [process, name] : processes_) names.push_back(name);
    return names;
  }
  std::vector<std::string> tracks(std::int64_t process) const {
    std::vector<std::string> names;
    for (const auto& [track, name] : tracks_)
      if (track.first == process) names.push_back(name);
    return names;
  }
  // The spans and moments of the process's track of this name, in order.
  std::vector<TracedSpan> spans(std::int64_t process, const std::string& track) const {
    for (const auto& [key, name] : tracks_)
      if (key.first == process && name == track && spans_.contains(key)) return spans_.at(key);
    return {};
  }
  // Only those with this name.
  std::vector<TracedSpan> named(std::int64_t process, const std::string& track,
                                const std::string& name) const {
    auto all = spans(process, track);
    std::erase_if(all, [&](const TracedSpan& each) { return each.name != name; });
    return all;
  }

  static constexpr std::int64_t kLauncher = 1'000'000;

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // process and track
  static Key key_of(const nlohmann::json& event) {
    EXPECT_TRUE(event.at("pid").is_number_unsigned() && event.at("tid").is_number_unsigned()) << event;
    return {event["pid"], event["tid"]};
  }
  void read_name(const nlohmann::json& event) {
    const Key key = key_of(event);
    const std::string kind = event.at("name");
    if (kind == "process_name") {
      EXPECT_TRUE(processes_.emplace(key.first, event.at("args").at("name")).second) << event;
    } else if (kind == "thread_name") {
      EXPECT_TRUE(tracks_.emplace(key, event.at("args").at("name")).second) << event;
    } else {
      EXPECT_TRUE(kind == "process_sort_index" || kind == "thread_sort_index") << event;
      EXPECT_TRUE(event.at("args").at("sort_index").is_number_integer()) << event;
    }
  }
  static std::int64_t ns(const nlohmann::json& microseconds) {
    EXPECT_TRUE(microseconds.is_number()) << microseconds;
    return std::llround(microseconds.get<double>() * 1000);
  }
  void read(const nlohmann::json& event) {
    const Key key = key_of(event);
    EXPECT_TRUE(processes_.contains(key.first) && tracks_.contains(key))
        << "its process or track has no name: " << event;
    TracedSpan span{.name = event.at("name"), .begin_ns = ns(event.at("ts"))};
    span.end_ns = span.begin_ns;
    if (event.contains("args")) span.arguments = event["args"];
    EXPECT_TRUE(span.arguments.is_null() || span.arguments.is_object()) << event;
    if (event["ph"] == "X") {
      const std::int64_t length = ns(event.at("dur"));
      EXPECT_GE(length, 0) << event;
      span.end_ns += length;
      auto& around = around_[key];
      while (!around.empty() && around.back() <= span.begin_ns) around.pop_back();
      EXPECT_TRUE(around.empty() || span.end_ns <= around.back())
          << "overlaps a span without being nested in it: " << event;
      around.push_back(span.end_ns);
      auto& newest = newest_.try_emplace(key, span.begin_ns).first->second;
      EXPECT_LE(newest, span.begin_ns) << "is out of order: " << event;
      newest = span.begin_ns;
    } else {
      EXPECT_EQ(event["ph"], "i") << event;
      EXPECT_EQ(event.at("s"), "t") << event;
    }
    spans_[key].push_back(std::move(span));
  }

  std::map<std::int64_t, std::string> processes_;
  std::map<Key, std::string> tracks_;
  std::map<Key, std::vector<TracedSpan>> spans_;
  std::map<Key, std::vector<std::int64_t>> around_;
  std::map<Key, std::int64_t> newest_;
};

}  // namespace muster
