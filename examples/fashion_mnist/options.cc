#include "examples/fashion_mnist/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>

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

Options parse_options(int argc, char** argv) {
  Options options;
  std::string fail_at;
  CLI::App app("Trains a small network on Fashion-MNIST. Start it with launch, or alone.",
               "train_fashion_mnist");
  const auto number = [&](const char* name, auto& value, const char* what, std::int64_t least) {
    using Number = std::remove_reference_t<decltype(value)>;
    const auto check = [least](const std::string& text) {
      Number parsed{};
      const bool usable = CLI::detail::lexical_cast(text, parsed) && parsed >= static_cast<Number>(least);
      return usable ? "" : "'" + text + "' is not a number of at least " + std::to_string(least);
    };
    app.add_option(name, value, what)->capture_default_str()->check(check, "NUMBER");
  };
  number("--epochs", options.epochs, "times through the training images", 1);
  number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  number("--batch-size", options.batch_size, "images per worker and step", 1);
  number("--lr", options.lr, "learning rate of Adam", 0);
  number("--seed", options.seed, "of the parameters, the order of the images, and dropout", 0);
  number("--num-workers", options.num_workers, "threads that load images, per worker", 0);
  number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  app.add_option("--data-dir", options.data_dir, "folder of the IDX files")->capture_default_str();
  app.add_option("--fail-at", fail_at,
                 "RANK:STEP: that worker kills itself after that step of the first attempt");
  try {
    app.parse(argc, argv);
    if (!fail_at.empty()) {
      options.fail_at = parse_fail_at(fail_at);
      if (!options.fail_at)
        throw CLI::ValidationError("--fail-at", "'" + fail_at + "' is not RANK:STEP, such as 2:350");
    }
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "train_fashion_mnist: %s\n", error.what());
    std::exit(2);
  }
  return options;
}
