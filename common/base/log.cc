#include "common/base/log.h"

#define SPDLOG_FMT_EXTERNAL

#include <memory>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/base/color.h"

namespace muster::log {

namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger> make(std::string name, Level level) {
  const bool color = isatty(STDERR_FILENO) && colors_wanted();
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(color ? spdlog::color_mode::always
                                                                              : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>(std::move(name), std::move(sink));
  logger->set_level(to_spdlog(level));
  logger->set_pattern("%n: %^%v%$");
  return logger;
}

// Made when first used: a program that says nothing pays nothing for it.
std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = make("muster", Level::kWarning);
  return instance;
}

}  // namespace

void set_up(std::string name, Level level) {
  logger() = make(std::move(name), level);
}

bool enabled(Level level) {
  return logger()->should_log(to_spdlog(level));
}

void write(Level level, std::string_view message) {
  constexpr std::string_view kMarks[] = {"debug: ", "", "warning: ", "error: "};
  logger()->log(to_spdlog(level), "{}{}", kMarks[static_cast<int>(level)], message);
}

}  // namespace muster::log
