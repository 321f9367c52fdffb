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

void add_pipeline(CLI::App& app, PipelineFlags& flags) {
  add_number(app, "--stages", flags.stages,
             "that the model is cut into, each on a rank of its own; more ranks are replicas. 0: all ranks",
             0);
  app.add_option("--schedule", flags.schedule,
                 "one of those with a stage a rank that `launch schedule` knows")
      ->capture_default_str();
  app.add_option("--split", flags.split,
                 "stages have as many layers, as many parameters, or take as long, which is measured first")
      ->capture_default_str()
      ->check(CLI::IsMember({"uniform", "parameters", "profile"}));
  add_number(app, "--microbatches", flags.microbatches, "that a batch is cut into", 1);
  app.add_flag("--recompute", flags.recompute, "stages keep their inputs only, and compute forward twice");
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
