#include "examples/common/flags.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

std::optional<FailAt> parse_fail_at(std::string_view text) {
  FailAt fail;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const char* end = text.data() + text.size();
  const auto rank = std::from_chars(text.data(), end, fail.rank);
  const auto step = std::from_chars(text.data() + colon + 1, end, fail.step);
  const bool whole =
      rank.ptr == text.data() + colon && step.ptr == end && rank.ec == std::errc() && step.ec == std::errc();
  return whole && fail.rank >= 0 && fail.step >= 1 ? std::optional(fail) : std::nullopt;
}

}  // namespace

void add_fail_at(CLI::App& app, std::optional<FailAt>& fail_at) {
  const auto set = [&fail_at](const std::string& text) {
    fail_at = parse_fail_at(text);
    if (!fail_at) throw CLI::ValidationError("--fail-at", "'" + text + "' is not RANK:STEP, such as 2:350");
  };
  app.add_option_function<std::string>(
      "--fail-at", set, "RANK:STEP: that worker kills itself after that step of the first attempt");
}

void parse_or_exit(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    std::exit(2);
  }
}
