// The speed of loading, compared with Python's DataLoader of the same LibTorch and C++ torch::data: samples
// per second, CPU seconds per million samples, peak memory, and the time to the first batch.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <functional>
#include <map>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Contender {
  std::string name;
  bool python;
  std::string form;
  std::string needs = "";  // a module of Python that may be missing
};

struct Case {
  std::string name;
  std::string title;
  std::function<std::string()> data;
  std::vector<Contender> contenders;  // Muster last
};

struct Setting {
  int runs = 5;
  double seconds = 0.5;
  std::vector<int> workers{0, 2, 4};
  std::string python;
  std::string fashion_mnist = "/usr/share/datasets/fashion-mnist";
  fs::path bin;
  fs::path scratch;
};

// One contender's figures by name, with a value per run.
using Figures = std::map<std::string, std::vector<double>>;

const std::vector<std::pair<std::string, std::string>> kColumns = {{"samples_per_second", "samples/s"},
                                                                   {"cpu_seconds_per_million", "CPU s/M"},
                                                                   {"peak_mib", "peak MiB"},
                                                                   {"first_batch_ms", "first ms"}};

const std::vector<Contender> kAlike = {{"Python __getitem__", true, "getitem"},
                                       {"Python __getitems__", true, "getitems"},
                                       {"torch::data", false, "torch_data"},
                                       {"Muster", false, "muster"}};

const std::vector<Contender> kImages = {{"Pillow, __getitem__", true, "pillow", "PIL"},
                                        {"Muster", false, "muster"}};

std::vector<Contender> after(std::vector<Contender> first, const std::vector<Contender>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// 64 MiB of pseudo-random tokens.
std::string token_file(const fs::path& folder) {
  std::vector<std::uint16_t> tokens(std::size_t{32} << 20);
  std::uint64_t state = 1;
  for (std::uint16_t& token : tokens) {
    state = state * 6364136223846793005 + 1442695040888963407;
    token = static_cast<std::uint16_t>(state >> 48);
  }
  std::ofstream(folder / "tokens.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(tokens.size() * sizeof(std::uint16_t)));
  return folder / "tokens.bin";
}

// JPEG files of 28 x 28 pixels, Fashion-MNIST's size, or of the size of stored photographs.
std::string jpeg_folder(const Setting& setting, const std::string& name, const Command& arguments) {
  const fs::path folder = setting.scratch / name;
  Command command{(setting.bin / "fashion_mnist_jpegs").string(),
                  "--data-dir",
                  setting.fashion_mnist,
                  "--out",
                  folder,
                  "--val",
                  "1"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  CHECK(runs_well(command), "{}", fmt::join(command, " "));
  return folder / "train";
}

bool can_run(const Contender& contender, const Setting& setting) {
  if (!contender.python) return true;
  if (!fs::exists(setting.python)) return false;
  if (contender.needs.empty() || runs_well({setting.python, "-c", "import " + contender.needs})) return true;
  fmt::print(stderr, "loader: skipping {}: {} has no module {}\n", contender.name, setting.python,
             contender.needs);
  return false;
}

void add_run(const Contender& contender, const Command& arguments, const Setting& setting, Figures& figures) {
  Command command = contender.python ? Command{setting.python, (setting.bin / "loader_run.py").string()}
                                     : Command{(setting.bin / "loader_run").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const nlohmann::json left = figures_of(command, setting.scratch / "figures");
  for (const auto& [name, title] : kColumns)
    if (left.is_object()) figures[name].push_back(left.value(name, 0.0));
}

// Muster's speed divided by the speed of `other`: the median over pairs of successive runs.
std::string times_as_fast(const Figures& muster, const Figures& other) {
  const auto ours = muster.find("samples_per_second"), theirs = other.find("samples_per_second");
  if (ours == muster.end() || theirs == other.end() || ours->second.size() != theirs->second.size())
    return "";
  std::vector<double> ratios;
  for (std::size_t run = 0; run < ours->second.size(); ++run)
    ratios.push_back(ours->second[run] / theirs->second[run]);
  return fmt::format("{:.2f}", median(ratios));
}

void print(const Case& what, int workers, const std::vector<Figures>& all) {
  fmt::print("{}, {} workers\n  {:<22}", what.title, workers, "");
  for (const auto& [name, title] : kColumns) fmt::print("{:>12}", title);
  fmt::print("{:>12}{:>6}\n", "Muster is x", "n");
  for (std::size_t i = 0; i < all.size(); ++i) {
    fmt::print("  {:<22}", what.contenders[i].name);
    if (all[i].empty()) {
      fmt::print("  every run failed\n");
      continue;
    }
    for (const auto& [name, title] : kColumns) {
      const double value = median(all[i].at(name));
      fmt::print("{:>12}", fmt::format("{:.{}f}", value, value < 100 ? 2 : 0));
    }
    fmt::print("{:>12}{:>6}\n", times_as_fast(all.back(), all[i]), all[i].at(kColumns[0].first).size());
  }
  std::fflush(stdout);
}

nlohmann::json report_of(const Case& what, int workers, const std::vector<Figures>& all) {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    nlohmann::json row = {{"contender", what.contenders[i].name}, {"values", all[i]}};
    for (const auto& [name, values] : all[i]) row["median"][name] = median(values);
    rows.push_back(std::move(row));
  }
  return {{"title", what.title}, {"workers", workers}, {"rows", std::move(rows)}};
}

void compare(Case what, const Setting& setting, bool json, nlohmann::json& report) {
  std::erase_if(what.contenders, [&](const Contender& each) { return !can_run(each, setting); });
  const std::string data = what.data();
  for (const int workers : setting.workers) {
    std::vector<Figures> all(what.contenders.size());
    for (int run = 0; run < setting.runs; ++run)
      for (std::size_t i = 0; i < all.size(); ++i)
        add_run(what.contenders[i],
                {what.name, what.contenders[i].form, std::to_string(workers), std::to_string(setting.seconds),
                 data},
                setting, all[i]);
    if (json)
      report.push_back(report_of(what, workers, all));
    else
      print(what, workers, all);
  }
}

std::vector<Case> cases(const Setting& setting) {
  const auto jpegs = [&](const char* name, const Command& arguments) {
    return [&setting, name, arguments] { return jpeg_folder(setting, name, arguments); };
  };
  return {{"fashion_mnist", "Fashion-MNIST, batches of 64, normalized", [&] { return setting.fashion_mnist; },
           kAlike},
          {"tokens", "tokens, 16 samples of 2048 with their shifted targets",
           [&] { return token_file(setting.scratch); },
           after({{"plain gather, 1 thread", false, "plain"}}, kAlike)},
          {"images", "JPEG files of 28 x 28, batches of 64, normalized", jpegs("images", {"--train", "4000"}),
           kImages},
          {"photos", "JPEG files of 320 x 320 in color, RandomResizedCrop(224), flipped, normalized",
           jpegs("photos", {"--train", "600", "--side", "320", "--rgb"}), kImages}};
}

constexpr const char* kBoundTitle =
    "loaded ahead by 2 workers while training uses no batch, batches of 4 MiB";

void print_bound(const nlohmann::json& rows) {
  fmt::print("{}\n  {:>20}{:>20}{:>24}\n", kBoundTitle, "prefetch_bytes MiB", "loaded ahead MiB",
             "process has grown MiB");
  for (const auto& row : rows)
    fmt::print("  {:>20}{:>20}{:>24.1f}\n", row.at("limit_mib").get<int>(),
               row.at("loaded_ahead_mib").get<int>(), row.at("resident_mib").get<double>());
}

int run(int argc, char** argv) {
  CLI::App app("The speed of loading, compared with Python's DataLoader and torch::data");
  Setting setting;
  bool json = false;
  std::string only;
  setting.python = torch_program("python3");
  app.add_option("--runs", setting.runs, "Runs of each contender, in turn")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", setting.seconds, "Length of a run, after a warm-up")
      ->check(CLI::PositiveNumber);
  app.add_option("--workers", setting.workers, "Numbers of workers")->check(CLI::Range(0, 64));
  app.add_option("--case", only, "Only this one: fashion_mnist, tokens, images, photos or bound");
  app.add_option("--python", setting.python, "A Python with torch; skipped if it does not exist");
  app.add_option("--fashion-mnist", setting.fashion_mnist, "The folder with its files");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);

  setting.bin = own_folder();
  const ScratchDirectory scratch;
  setting.scratch = scratch.path();
  nlohmann::json report = nlohmann::json::array();
  for (const Case& each : cases(setting))
    if (only.empty() || only == each.name) compare(each, setting, json, report);
  if (only.empty() || only == "bound") {
    const nlohmann::json rows =
        figures_of({(setting.bin / "loader_run").string(), "bound"}, setting.scratch / "figures");
    if (json)
      report.push_back({{"title", kBoundTitle}, {"rows", rows}});
    else
      print_bound(rows);
  }
  if (json) fmt::print("{}\n", report.dump(2));
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
