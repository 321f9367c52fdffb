#include "common/base/log.h"

#define SPDLOG_FMT_EXTERNAL

#include <memory>
#include <mutex>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/base/color.h"

namespace muster::log {

namespace {

constexpr const char* kPattern = "%n: %^%v%$";

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

class DivertedSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DivertedSink(std::function<void(std::string_view line)> writer) : writer_(std::move(writer)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer_({line.data(), line.size()});
  }
  void flush_() override {}

  std::function<void(std::string_view line)> writer_;
};

std::shared_ptr<spdlog::sinks::sink> stderr_sink() {
  const bool color = isatty(STDERR_FILENO) && colors_wanted();
  return std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(color ? spdlog::color_mode::always
                                                                         : spdlog::color_mode::never);
}

std::shared_ptr<spdlog::logger> make(std::string name, Level level) {
  auto logger = std::make_shared<spdlog::logger>(std::move(name), stderr_sink());
  logger->set_level(to_spdlog(level));
  logger->set_pattern(kPattern);
  return logger;
}

// Creates the logger at the first use, so that a program without messages does not spend time on it.
std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = make("muster", Level::kInfo);
  return instance;
}

}  // namespace

void set_up(std::string name, Level level) {
  logger() = make(std::move(name), level);
}

void divert(std::function<void(std::string_view line)> writer) {
  const auto& target = logger();
  target->sinks() = {writer ? std::static_pointer_cast<spdlog::sinks::sink>(
                                  std::make_shared<DivertedSink>(std::move(writer)))
                            : stderr_sink()};
  target->set_pattern(kPattern);
}

bool enabled(Level level) {
  return logger()->should_log(to_spdlog(level));
}

void write(Level level, std::string_view message) {
  constexpr std::string_view kMarks[] = {"debug: ", "", "warning: ", "error: "};
  logger()->log(to_spdlog(level), "{}{}", kMarks[static_cast<int>(level)], message);
}

}  // namespace muster::log
