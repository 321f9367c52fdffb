#include "runtime/train/run_records.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>
#include <zlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/text.h"

namespace muster {
namespace {

double unix_seconds() {
  return static_cast<double>(unix_ns()) / 1e9;
}

// Returns null for NaN and infinities, which JSON does not have.
nlohmann::json json_of(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

std::string line_of(const nlohmann::ordered_json& row) {
  return row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Returns the text in the form of a CSV field (RFC 4180), that is, in quotes if necessary.
std::string csv_of(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

void add_chunk(std::string& png, std::string_view kind, std::string_view bytes) {
  const auto add_number = [&png](std::uint32_t number) {
    for (const int shift : {24, 16, 8, 0}) png += static_cast<char>(number >> shift);
  };
  add_number(static_cast<std::uint32_t>(bytes.size()));
  const std::string summed = std::string(kind) + std::string(bytes);
  png += summed;
  add_number(static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()))));
}

// Encodes `pixels` as PNG. They are in rows, with `channels` bytes for each pixel.
std::string png_of(event_records::Size size, std::string_view pixels) {
  const auto row_bytes = static_cast<std::size_t>(size.width * size.channels);
  CHECK(pixels.size() == row_bytes * static_cast<std::size_t>(size.height));
  std::string rows;
  rows.reserve(pixels.size() + static_cast<std::size_t>(size.height));
  for (std::size_t at = 0; at < pixels.size(); at += row_bytes) {
    rows += '\0';  // no filter
    rows += pixels.substr(at, row_bytes);
  }
  uLongf packed_bytes = compressBound(rows.size());
  std::string packed(packed_bytes, '\0');
  CHECK(compress2(reinterpret_cast<Bytef*>(packed.data()), &packed_bytes,
                  reinterpret_cast<const Bytef*>(rows.data()), rows.size(), Z_BEST_SPEED) == Z_OK);
  packed.resize(packed_bytes);
  std::string header;
  for (const std::int64_t side : {size.width, size.height})
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(side >> shift);
  // The next bytes of the header: 8 bits for each channel; 0 for gray or 2 for colors; compressed by deflate;
  // without filters; not interlaced.
  header += {8, static_cast<char>(size.channels == 1 ? 0 : 2), 0, 0, 0};
  std::string png("\x89PNG\r\n\x1a\n");
  add_chunk(png, "IHDR", header);
  add_chunk(png, "IDAT", packed);
  add_chunk(png, "IEND", "");
  return png;
}

}  // namespace

void RunRecords::add_scalars(std::int64_t step, const event_records::Scalars& values) {
  begin();
  const double time = unix_seconds();
  mark_.newest_step = std::max(mark_.newest_step, step);
  if (formats_.tensorboard) write(events_, event_records::scalars({time, step}, values));
  if (formats_.jsonl) {
    nlohmann::ordered_json row = {{"step", step}, {"time", time}};
    for (const auto& [tag, value] : values) row[tag] = json_of(value);
    write(jsonl_, line_of(row));
  }
  if (!formats_.csv) return;
  std::string rows;
  for (const auto& [tag, value] : values)
    rows += fmt::format("{},{:.3f},{},{}\n", step, time, csv_of(tag), value);
  write(csv_, rows);
}

void RunRecords::add_histogram(std::int64_t step, const std::string& tag, std::span<const double> values) {
  begin();
  mark_.newest_step = std::max(mark_.newest_step, step);
  if (formats_.tensorboard) write(events_, event_records::histogram({unix_seconds(), step}, tag, values));
}

void RunRecords::add_image(std::int64_t step, const std::string& tag, event_records::Size size,
                           std::string_view pixels) {
  begin();
  mark_.newest_step = std::max(mark_.newest_step, step);
  if (formats_.tensorboard)
    write(events_, event_records::image({unix_seconds(), step}, tag, size, png_of(size, pixels)));
}

void RunRecords::add_text(std::int64_t step, const std::string& tag, const std::string& text) {
  begin();
  const double time = unix_seconds();
  mark_.newest_step = std::max(mark_.newest_step, step);
  if (formats_.tensorboard) write(events_, event_records::text({time, step}, tag, text));
  if (formats_.jsonl) write(jsonl_, line_of({{"step", step}, {"time", time}, {tag, text}}));
}

void RunRecords::add_settings(const event_records::Settings& values, const event_records::Scalars& metrics) {
  begin();
  const double time = unix_seconds();
  if (formats_.tensorboard) {
    std::vector<std::string> names;
    for (const auto& [name, value] : metrics) names.push_back(name);
    write(events_, event_records::settings({time, 0}, values, names));
  }
  if (formats_.jsonl) {
    nlohmann::ordered_json settings;
    for (const auto& [name, value] : values)
      std::visit([&settings, &name](const auto& each) { settings[name] = each; }, value);
    write(jsonl_, line_of({{"time", time}, {"hparams", settings}}));
  }
  if (!metrics.empty()) add_scalars(std::max<std::int64_t>(mark_.newest_step, 0), metrics);
}

std::string RunRecords::mark() const {
  Mark now = mark_;
  if (begun_) {
    for (const File* const file : {&events_, &jsonl_, &csv_})
      if (file->size > 0) now.sizes[file->name] = file->size;
  }
  return nlohmann::json{{"sizes", now.sizes}, {"newest_step", now.newest_step}, {"run", now.run}}.dump();
}

Status RunRecords::go_on_from(const std::string& mark) {
  try {
    const auto read = nlohmann::json::parse(mark);
    Mark mine{.sizes = read.at("sizes").get<std::map<std::string, std::uint64_t>>(),
              .newest_step = read.at("newest_step").get<std::int64_t>(),
              .run = read.value("run", "")};
    if (begun_ && mark_.sizes.empty() && mine.run != mark_.run)
      for (const File* const file : {&events_, &jsonl_, &csv_})
        if (file->size > 0) made_before_.push_back(file->name);
    mark_ = std::move(mine);
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "'{}' does not describe a logger's files: {}", mark, error.what());
  }
  for (File* const file : {&events_, &jsonl_, &csv_}) file->fd.reset();
  begun_ = false;
  return {};
}

void RunRecords::begin() {
  if (begun_) return;
  begun_ = true;
  if (const Status prepared = prepare(); !prepared) fail(prepared.error());
}

Status RunRecords::prepare() {
  if (Status made = make_directories(directory_); !made) return made;
  if (mark_.run.empty()) {
    std::random_device random;
    mark_.run = fmt::format("{:08x}{:08x}", random(), random());
  }
  if (Status done = find_marked(); !done) return done;
  if (Status done = cut(); !done) return done;
  if (formats_.jsonl) {
    if (Status opened = open(jsonl_); !opened) return opened;
  }
  if (formats_.csv) {
    if (Status opened = open(csv_); !opened) return opened;
    if (csv_.size == 0) write(csv_, "step,time,tag,value\n");
  }
  if (!formats_.tensorboard) return {};
  // TensorBoard reads the files in the order of their names, and the names begin with a time. The new file
  // must be the last one, even if an older file was written on a host whose clock is ahead.
  std::int64_t seconds = unix_ns() / 1'000'000'000;
  for (const auto& [name, size] : mark_.sizes) {
    if (!name.starts_with(kEvents)) continue;
    const auto stamp = parse_number<std::int64_t>(std::string_view(name).substr(kEvents.size(), 10));
    if (stamp) seconds = std::max(seconds, *stamp + 1);
  }
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  events_ = {.name = fmt::format("{}{:010}.{}.{}{}{}", kEvents, seconds, host, getpid(), kRun, mark_.run)};
  if (Status opened = open(events_); !opened) return opened;
  const double time = unix_seconds();
  write(events_, event_records::beginning(time));
  // A TensorBoard that runs now may already have read rows that cut() has removed. This record tells it to
  // forget these rows.
  if (mark_.newest_step >= 0) write(events_, event_records::restart({time, mark_.newest_step + 1}));
  return {};
}

// Removes the files that this process made before go_on_from(). Then it looks for the files that the mark
// names. If the marked files are in a directory "before-N", this function moves them back. There are two
// reasons why they can have been moved there: this process wrote rows before go_on_from(), or another
// training started from its beginning and uses the same directory.
Status RunRecords::find_marked() {
  const std::vector<std::string> mine = std::exchange(made_before_, {});
  for (const std::string& name : mine)
    if (Status removed = remove(name); !removed) return removed;
  if (mark_.sizes.empty() || has_marked(directory_)) return {};
  // Begins with the newest directory "before-N". If several of these directories have files with the marked
  // names, the files in the newest one belong to this training.
  int last = 0;
  while (std::filesystem::exists(place_aside(last + 1))) ++last;
  for (; last > 0; --last) {
    const std::string aside = place_aside(last);
    if (!has_marked(aside)) continue;
    const auto there = found();
    if (!there) return std::unexpected(there.error());
    if (!there->empty())
      if (Status moved = move_aside(*there); !moved) return moved;
    return bring_back(aside);
  }
  return {};
}

bool RunRecords::has_marked(const std::string& directory) const {
  return std::ranges::all_of(mark_.sizes, [&](const auto& marked) {
    struct stat status{};
    return stat((directory + "/" + marked.first).c_str(), &status) == 0 &&
           static_cast<std::uint64_t>(status.st_size) >= marked.second;
  });
}

Status RunRecords::bring_back(const std::string& aside) const {
  std::error_code error;
  for (std::filesystem::directory_iterator each(aside, error);
       !error && each != std::filesystem::directory_iterator(); each.increment(error)) {
    const std::string name = each->path().filename();
    if (rename(each->path().c_str(), (directory_ + "/" + name).c_str()) != 0)
      return system_failure("cannot move " + aside + "/" + name, errno);
  }
  rmdir(aside.c_str());  // fails, and keeps the folder, if a file is left in it
  log::warning("this training continues the logs in {}; moved them back to {}", aside, directory_);
  return {};
}

Status RunRecords::remove(const std::string& name) const {
  const std::string path = directory_ + "/" + name;
  return unlink(path.c_str()) == 0 || errno == ENOENT ? Status{}
                                                      : system_failure("cannot remove " + path, errno);
}

Status RunRecords::cut() {
  const auto there = found();
  if (!there) return std::unexpected(there.error());
  std::vector<std::string> others;
  for (const std::string& name : *there) {
    const auto marked = mark_.sizes.find(name);
    if (marked == mark_.sizes.end()) {
      if (mark_.sizes.empty() || !name.starts_with(kEvents)) {
        others.push_back(name);
      } else if (name.ends_with(mark_.run)) {
        // The name shows that another process has continued the run from the same mark. The file of that
        // process is removed, because this process writes the same rows again.
        if (Status removed = remove(name); !removed) return removed;
      }
      continue;
    }
    const std::string path = directory_ + "/" + name;
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) return system_failure("cannot look at " + path, errno);
    if (static_cast<std::uint64_t>(status.st_size) > marked->second &&
        truncate(path.c_str(), static_cast<off_t>(marked->second)) != 0)
      return system_failure("cannot cut " + path, errno);
  }
  return others.empty() ? Status{} : move_aside(others);
}

std::string RunRecords::place_aside(int number) const {
  return fmt::format("{}/before-{}", directory_, number);
}

Status RunRecords::move_aside(const std::vector<std::string>& names) const {
  int number = 1;
  while (std::filesystem::exists(place_aside(number))) ++number;
  const std::string aside = place_aside(number);
  if (Status made = make_directories(aside); !made) return made;
  for (const std::string& name : names) {
    const std::string from = directory_ + "/" + name;
    if (rename(from.c_str(), (aside + "/" + name).c_str()) != 0)
      return system_failure("cannot move " + from, errno);
  }
  log::warning("{} had logs that this training does not continue; moved them to {}", directory_, aside);
  return {};
}

Expected<std::vector<std::string>> RunRecords::found() const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator each(directory_, error);
       !error && each != std::filesystem::directory_iterator(); each.increment(error)) {
    const std::string name = each->path().filename();
    const bool mine = name.starts_with(kEvents) ? name.contains(kRun)
                      : name == jsonl_.name     ? formats_.jsonl
                                                : name == csv_.name && formats_.csv;
    if (mine || mark_.sizes.contains(name)) names.push_back(name);
  }
  if (error) return failure(ErrorCode::kUnavailable, "cannot list {}: {}", directory_, error.message());
  std::ranges::sort(names);
  return names;
}

Status RunRecords::open(File& file) const {
  const std::string path = directory_ + "/" + file.name;
  file.fd.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat status{};
  if (!file.fd || fstat(file.fd.get(), &status) != 0) return system_failure("cannot open " + path, errno);
  file.size = static_cast<std::uint64_t>(status.st_size);
  return {};
}

void RunRecords::write(File& file, std::string_view bytes) {
  if (!file.fd) return;
  const Status written = write_all(file.fd.get(), bytes, directory_ + "/" + file.name);
  if (!written) return fail(written.error());
  file.size += bytes.size();
}

void RunRecords::fail(const Error& error) {
  for (File* const file : {&events_, &jsonl_, &csv_}) file->fd.reset();
  if (!failed_) log::error("the logger has stopped writing: {}", error.message());
  failed_ = true;
}

}  // namespace muster
