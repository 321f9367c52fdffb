#include "examples/common/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
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

Flags::Flags(const std::string& program, const std::string& what)
    : app_(std::make_unique<CLI::App>(what, program)) {}
Flags::~Flags() = default;

template <class Number>
void Flags::number(const char* name, Number& value, const char* what, double least, double most) {
  const std::string range =
      std::isinf(most) ? "of at least " + CLI::detail::to_string(least)
                       : "from " + CLI::detail::to_string(least) + " to " + CLI::detail::to_string(most);
  const auto check = [=](const std::string& text) {
    Number parsed{};
    const auto number =
        CLI::detail::lexical_cast(text, parsed) ? std::optional<double>(parsed) : std::nullopt;
    const bool usable = number && *number >= least && *number <= most;
    return usable ? "" : "'" + text + "' is not a number " + range;
  };
  app_->add_option(name, value, what)
      ->capture_default_str()
      ->check(check, std::isinf(most) ? "NUMBER" : "NUMBER " + range);
}
template void Flags::number(const char*, int&, const char*, double, double);
template void Flags::number(const char*, std::int64_t&, const char*, double, double);
template void Flags::number(const char*, std::uint64_t&, const char*, double, double);
template void Flags::number(const char*, double&, const char*, double, double);

void Flags::text(const char* name, std::string& value, const char* what) {
  auto* option = app_->add_option(name, value, what);
  if (!value.empty()) option->capture_default_str();
}

void Flags::required_text(const char* name, std::string& value, const char* what) {
  app_->add_option(name, value, what)->required();
}

void Flags::choice(const char* name, std::string& value, const char* what,
                   const std::vector<std::string>& values) {
  app_->add_option(name, value, what)->capture_default_str()->check(CLI::IsMember(values));
}

void Flags::yes(const char* name, bool& value, const char* what) {
  app_->add_flag(name, value, what);
}

void Flags::fail_at(std::optional<FailAt>& value) {
  const auto set = [&value](const std::string& text) {
    value = parse_fail_at(text);
    if (!value) throw CLI::ValidationError("--fail-at", "'" + text + "' is not RANK:STEP, such as 2:350");
  };
  app_->add_option_function<std::string>(
      "--fail-at", set, "RANK:STEP: this worker kills itself after this step of the first attempt");
}

void Flags::pipeline(PipelineFlags& values) {
  number("--stages", values.stages,
         "stages of the model, one per rank; further ranks are replicas. 0: one stage per rank", 0);
  text("--schedule", values.schedule, "a schedule of `launch schedule` with one stage per rank");
  choice("--split", values.split, "balance layers (uniform), parameters, or measured time (profile)",
         {"uniform", "parameters", "profile"});
  number("--microbatches", values.microbatches, "microbatches per batch", 1);
  yes("--recompute", values.recompute, "keep only each stage's input, and compute forward twice");
}

void Flags::parse_or_exit(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app_->help().c_str(), stdout);
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s\n", app_->get_name().c_str(), error.what());
    std::exit(2);
  }
}

void Flags::multiple_or_exit(const char* flag, std::int64_t value, const char* of,
                             std::int64_t divisor) const {
  if (value % divisor == 0) return;
  std::fprintf(stderr, "%s: %s %ld is not a multiple of %s %ld\n", app_->get_name().c_str(), flag,
               static_cast<long>(value), of, static_cast<long>(divisor));
  std::exit(2);
}
