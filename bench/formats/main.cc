// Measures how fast Muster reads the formats of data sets, compared with programs that only read or decode
// the same bytes, and with Python's libraries for these formats.
//
// A case's contenders run in turn, each run in its own process. Ratios are to the first contender.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
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
  int workers = 0;
  std::string needs = "";  // a module of Python that may be missing
};

struct Case {
  std::string name;
  std::string title;
  std::string unit;
  double unit_samples;  // the number of samples in one unit
  std::vector<Contender> contenders;
  std::string made_by = "";  // a Python module that makes the data; empty: formats_run makes it
};

struct Setting {
  int runs = 5;
  double seconds = 1;
  std::string python;
  fs::path bin;
  fs::path scratch;
};

// One contender's figures by name, with a value per run.
using Figures = std::map<std::string, std::vector<double>>;

const Contender kCat{"cat FILE > /dev/null", false, "cat"};

Case parquet() {
  return {"parquet",
          "rows of 2048 int32 in Parquet compressed by zstd, batches of 64",
          "thousand rows a second",
          1e3,
          {{"pyarrow iter_batches, 1 thread", true, "pyarrow", 0, "pyarrow"},
           {"Muster", false, "muster"},
           {"Muster, 2 workers", false, "muster", 2},
           {"datasets, streaming", true, "streaming", 0, "datasets"},
           {"datasets, streaming, 2 workers", true, "streaming", 2, "datasets"},
           {"datasets, Arrow cache", true, "arrow", 0, "datasets"},
           {"datasets, Arrow cache, 2 workers", true, "arrow", 2, "datasets"}},
          "pyarrow"};
}

std::vector<Case> cases() {
  constexpr double kTokensOfSample = 1024;
  const auto tokens = [](const char* name, const char* title) {
    return Case{name,
                title,
                "million tokens a second",
                1e6 / kTokensOfSample,
                {{"plain gather", false, "plain"}, {"Muster, get_batch", false, "muster"}}};
  };
  return {{"jpegs",
           "JPEGs of 224 x 224 from tar, uint8 batches of 64",
           "pictures a second",
           1,
           {{"libjpeg-turbo, decoding only", false, "libjpeg"},
            {"Muster", false, "muster"},
            {"Muster, 2 workers", false, "muster", 2},
            {"Pillow, decoding only", true, "pillow", 0, "PIL"},
            {"webdataset, Pillow", true, "webdataset", 0, "webdataset"},
            {"webdataset, Pillow, 2 workers", true, "webdataset", 2, "webdataset"}}},
          {"samples",
           "17 KB and a class from tar, batches of 64, not decoded",
           "thousand samples a second",
           1e3,
           {kCat,
            {"Muster", false, "muster"},
            {"Muster, 2 workers", false, "muster", 2},
            {"webdataset", true, "webdataset", 0, "webdataset"},
            {"webdataset, 2 workers", true, "webdataset", 2, "webdataset"}}},
          {"members",
           "members of 1 MiB from tar",
           "MiB a second",
           1,
           {kCat, {"cat FILE | cat > /dev/null", false, "cat_cat"}, {"Muster", false, "muster"}}},
          tokens("npy",
                 "tokens of uint16 in .npy, 16 samples of 1024 with their shifted targets, in random order"),
          tokens("megatron", "the same in Megatron's .idx and .bin"),
          parquet()};
}

// Returns whether Python can import the module. Prints one line per missing module.
bool has_module(const std::string& module, const Setting& setting) {
  static std::map<std::string, bool> known;
  const auto [place, is_new] = known.try_emplace(module, false);
  if (is_new) {
    place->second = runs_well({setting.python, "-c", "import torch, " + module});
    if (!place->second)
      fmt::print(stderr, "formats: skipping {}: {} cannot import it; --python names another Python\n", module,
                 setting.python.empty() ? "no Python" : setting.python);
  }
  return place->second;
}

Command command_of(bool python, const Setting& setting) {
  return python ? Command{setting.python, (setting.bin / "formats_run.py").string()}
                : Command{(setting.bin / "formats_run").string()};
}

void add_run(const Case& what, const Contender& contender, const Setting& setting, Figures& figures) {
  Command command = command_of(contender.python, setting);
  for (const std::string& word : {what.name, contender.form, std::to_string(contender.workers),
                                  std::to_string(setting.seconds), (setting.scratch / what.name).string()})
    command.push_back(word);
  const nlohmann::json left = figures_of(command, setting.scratch / "figures");
  if (!left.is_object()) return;
  for (const auto& [name, value] : left.items()) figures[name].push_back(value.get<double>());
  figures["rate"].push_back(figures["samples_per_second"].back() / what.unit_samples);
}

void print(const Case& what, const std::vector<Figures>& all) {
  fmt::print("{}\n  {:<34}{:>10}{:>10}{:>10}{:>4}{:>8}{:>14}{:>10}\n", what.title, "", "median", "min", "max",
             "n", "ratio", "95 %", "peak MiB");
  for (std::size_t i = 0; i < all.size(); ++i) {
    fmt::print("  {:<34}", what.contenders[i].name);
    const auto found = all[i].find("rate");
    if (found == all[i].end()) {
      fmt::print("  every run failed\n");
      continue;
    }
    const std::vector<double>& rates = found->second;
    const auto digits = median(rates) < 100 ? 2 : 0;
    for (const double value : {median(rates), percentile(rates, 0), percentile(rates, 1)})
      fmt::print("{:>10.{}f}", value, digits);
    fmt::print("{:>4}", rates.size());
    const auto base = all[0].find("rate");
    const bool comparable = base != all[0].end() && base->second.size() == rates.size();
    const Interval range = comparable ? ratio_interval(rates, base->second) : Interval{};
    fmt::print("{:>8}{:>14}", comparable ? fmt::format("{:.2f}", median(rates) / median(base->second)) : "",
               comparable && i > 0 ? fmt::format("{:.2f} .. {:.2f}", range.low, range.high) : "");
    const auto peak = all[i].find("peak_mib");
    fmt::print("{:>10}\n", peak == all[i].end() ? "" : fmt::format("{:.0f}", median(peak->second)));
  }
  fmt::print("  ({})\n", what.unit);
  std::fflush(stdout);
}

nlohmann::json report_of(const Case& what, const std::vector<Figures>& all) {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    nlohmann::json row = {{"contender", what.contenders[i].name}, {"values", all[i]}};
    for (const auto& [name, values] : all[i]) row["median"][name] = median(values);
    rows.push_back(std::move(row));
  }
  return {{"title", what.title}, {"unit", what.unit}, {"rows", std::move(rows)}};
}

void compare(Case what, const Setting& setting, bool json, nlohmann::json& report) {
  const bool python = !what.made_by.empty();
  if (python && !has_module(what.made_by, setting)) return;
  std::erase_if(what.contenders,
                [&](const Contender& each) { return each.python && !has_module(each.needs, setting); });
  const fs::path data = setting.scratch / what.name;
  fs::create_directory(data);
  Command make = command_of(python, setting);
  for (const std::string& word : {std::string("make"), what.name, data.string()}) make.push_back(word);
  CHECK(runs_well(make), "cannot make the data of {}", what.name);
  std::vector<Figures> all(what.contenders.size());
  for (int run = 0; run < setting.runs; ++run)
    for (std::size_t i = 0; i < all.size(); ++i) add_run(what, what.contenders[i], setting, all[i]);
  fs::remove_all(data);
  if (json)
    report.push_back(report_of(what, all));
  else
    print(what, all);
}

int run(int argc, char** argv) {
  CLI::App app(
      "How fast Muster reads the formats of data sets, compared with programs that only read or decode them");
  Setting setting;
  bool json = false;
  std::string only;
  setting.python = torch_program("python3");
  app.add_option("--runs", setting.runs, "Runs of each contender, in turn")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", setting.seconds, "Length of a run, after a warm-up")
      ->check(CLI::PositiveNumber);
  app.add_option("--case", only, "Only this one: jpegs, samples, members, npy, megatron or parquet")
      ->check(CLI::IsMember({"jpegs", "samples", "members", "npy", "megatron", "parquet"}));
  app.add_option(
      "--python", setting.python,
      "A Python with torch. Comparisons with Pillow, webdataset, pyarrow or datasets are skipped if it lacks them");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);

  setting.bin = own_folder();
  const ScratchDirectory scratch;
  setting.scratch = scratch.path();
  nlohmann::json report = nlohmann::json::array();
  for (const Case& each : cases())
    if (only.empty() || only == each.name) compare(each, setting, json, report);
  if (json) fmt::print("{}\n", report.dump(2));
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
