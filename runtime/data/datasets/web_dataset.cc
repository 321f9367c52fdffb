#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fmt/ranges.h>
#include <muster/data/sample_random.h>
#include <muster/data/web_dataset.h>
#include <nlohmann/json.hpp>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "runtime/data/argument.h"
#include "runtime/data/datasets/file_kind.h"
#include "runtime/data/datasets/npy.h"
#include "runtime/data/datasets/npz.h"
#include "runtime/data/datasets/tar.h"
#include "runtime/data/order/shard_order.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

constexpr std::int64_t kLargestBuffer = 1 << 24;
constexpr std::size_t kMostArchives = 10'000'000;

[[noreturn]] void refuse_part(const WebSample& sample, const std::string& what) {
  throw std::runtime_error(fmt::format("sample {} of {} {}", one_line(sample.key), sample.archive, what));
}

const std::string& part_of(const WebSample& sample, const std::string& name) {
  const auto found = sample.parts.find(name);
  if (found == sample.parts.end())
    refuse_part(sample, one_line(fmt::format("has no {}, but {}", name,
                                             fmt::join(std::views::keys(sample.parts), ", "))));
  return found->second;
}

[[noreturn]] void refuse_unread(const WebSample& sample, const std::string& part, const std::string& why) {
  refuse_part(sample, fmt::format("has a {} that cannot be read: {}", one_line(part), why));
}

[[noreturn]] void refuse_json(const WebSample& sample, const std::string& part, const std::string& key,
                              const std::string& what) {
  refuse_part(sample, one_line(fmt::format("has a {} in which \"{}\" {}", part, key, what)));
}

// Returns the value of `key` in a .json part. `key` is a member's name. If it begins with a slash, it is a
// JSON pointer (RFC 6901).
nlohmann::json json_value(const WebSample& sample, const std::string& part, const std::string& key) {
  nlohmann::json all = nlohmann::json::parse(part_of(sample, part), nullptr, false);
  if (all.is_discarded()) refuse_unread(sample, part, "it is not JSON");
  try {
    // The value is moved, because copying it would need as many nested calls as the text has nested levels.
    return std::move(key.starts_with('/') ? all.at(nlohmann::json::json_pointer(key)) : all.at(key));
  } catch (const nlohmann::json::exception&) {  // also for a list, and for a malformed pointer
    refuse_json(sample, part, key, "is missing");
  }
}

[[noreturn]] void refuse_archive(const std::string& name, std::string_view right) {
  check_argument(false, "WebDataset: archive", one_line(name), right);
  std::unreachable();
}

std::int64_t number_in_braces(std::string_view text, const std::string& name) {
  const auto number = parse_number<std::int64_t>(text);
  if (!number || *number < 0 || text.size() > 18)
    refuse_archive(name, "with numbers in its braces, as in {000..146}");
  return *number;
}

// `inside` is the text between two braces. If it is like "000..146" or "a,b", this function returns all names
// that it stands for. Otherwise it returns no names.
std::vector<std::string> choices_in(std::string_view inside, const std::string& name) {
  if (inside.contains('{')) refuse_archive(name, "without braces in braces");
  const std::size_t dots = inside.find("..");
  std::vector<std::string> choices;
  if (dots == std::string_view::npos) {
    if (inside.contains(','))
      for (const std::string_view choice : split(inside, ',')) choices.emplace_back(choice);
    return choices;
  }
  const std::string_view begin = inside.substr(0, dots), end = inside.substr(dots + 2);
  if (end.contains(".."))
    refuse_archive(name, "without a step: all archives from the first to the last are read");
  const auto first = number_in_braces(begin, name), last = number_in_braces(end, name);
  if (first > last) refuse_archive(name, "with the smaller number first");
  if (last - first >= static_cast<std::int64_t>(kMostArchives))
    refuse_archive(name, fmt::format("at most {} archives", kMostArchives));
  for (std::int64_t number = first; number <= last; ++number)
    choices.push_back(fmt::format("{:0{}}", number, begin.size()));
  return choices;
}

// A name of an archive can have braces, each with several choices. This function divides the name into parts
// and returns the choices of each part, in the order of the parts. A part outside of braces has one choice.
std::vector<std::vector<std::string>> parts_of(const std::string& name) {
  std::vector<std::vector<std::string>> parts;
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t open = rest.find('{'), close = rest.find('}', open);
    const bool braces = open != std::string_view::npos && close != std::string_view::npos;
    if (!braces || open > 0) parts.push_back({std::string(rest.substr(0, braces ? open : rest.size()))});
    if (!braces) break;
    auto choices = choices_in(rest.substr(open + 1, close - open - 1), name);
    if (choices.empty()) choices.emplace_back(rest.substr(open, close + 1 - open));  // keeps {x}, as a shell
    parts.push_back(std::move(choices));
    rest.remove_prefix(close + 1);
  }
  return parts;
}

// Appends all names that `name` stands for. The names have the same order as in a shell: the choices in the
// last braces change fastest.
void expand_braces(const std::string& name, std::vector<std::string>& to) {
  std::vector<std::string> all{""};
  for (const auto& choices : parts_of(name)) {
    if (choices.size() > (kMostArchives - std::min(to.size(), kMostArchives)) / all.size())
      refuse_archive(name, fmt::format("at most {} archives", kMostArchives));
    std::vector<std::string> longer;
    for (const std::string& begin : all)
      for (const std::string& choice : choices) longer.push_back(begin + choice);
    all = std::move(longer);
  }
  std::ranges::move(all, std::back_inserter(to));
}

void refuse_pattern(const std::string& name) {
  std::error_code ignored;
  if (name.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(name, ignored))
    refuse_archive(name, "without *, ? and [: give the numbers, as in {000..146}");
}

// sample_name() looks at the last component of a file's path and divides it at its first dot. It returns
// nothing if the file does not belong to a sample.
struct SampleName {
  std::string key, part;
};
std::optional<SampleName> sample_name(const std::string& name) {
  const std::string_view front = std::string_view(name).substr(0, name.find('/'));
  if (front.size() >= 4 && front.starts_with("__") && front.ends_with("__")) return std::nullopt;
  const std::size_t slash = name.rfind('/');
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1, dot = name.find('.', begin);
  if (dot == std::string::npos || dot == begin) return std::nullopt;
  SampleName parts{.key = name.substr(0, dot), .part = name.substr(dot + 1)};
  for (char& letter : parts.part)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return parts;
}

template <class Value>
Value value_or_throw(Expected<Value> value) {
  if (!value) throw std::runtime_error(value.error().message());
  return *std::move(value);
}

// Reads the samples of one archive.
class Archive {
 public:
  explicit Archive(const std::string& path) : path_(path), tar_(value_or_throw(TarReader::open(path))) {}

  std::optional<WebSample> next() {
    WebSample sample{.key = {}, .archive = path_, .parts = {}};
    const auto twice = group([&](const SampleName& name) {
      sample.key = name.key;
      return sample.parts.emplace(name.part, value_or_throw(tar_.contents())).second;
    });
    if (sample.parts.empty()) return std::nullopt;
    if (twice) refuse_part(sample, one_line(fmt::format("has two {}", *twice)));
    return sample;
  }
  // Skips the next sample. Returns false at the end.
  bool skip() {
    bool any = false;
    group([&any](const SampleName&) { return any = true; });
    return any;
  }

 private:
  // Calls `take` for each file of the next sample. `take` returns false for a file that it does not want.
  // group() returns the part name (such as "jpg") of the last file that `take` did not want. It returns
  // nothing if `take` wanted all files.
  template <class Take>
  std::optional<std::string> group(const Take& take) {
    std::optional<std::string> unwanted;
    if (!name_) advance();
    const std::optional<SampleName> first = name_;
    while (name_ && name_->key == first->key) {
      const SampleName name = *std::exchange(name_, std::nullopt);  // skips the file even if take() throws
      if (!take(name)) unwanted = name.part;
      advance();
    }
    return unwanted;
  }
  void advance() {
    name_.reset();
    while (!name_) {
      const std::optional<TarEntry> entry = value_or_throw(tar_.next());
      if (!entry && tar_.lacks_end())
        log::warning(
            "{} ends without the blocks of zeros that tar writes last: it may have been cut off there",
            path_);
      if (!entry) return;
      name_ = sample_name(entry->name);
    }
  }

  std::string path_;
  TarReader tar_;
  std::optional<SampleName> name_;  // of the next file
};

}  // namespace

std::string_view WebSample::text(const std::string& part) const {
  return part_of(*this, part);
}

std::span<const std::uint8_t> WebSample::bytes(const std::string& part) const {
  const std::string& text = part_of(*this, part);
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::int64_t WebSample::number(const std::string& part) const {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view digits = text(part);
  digits.remove_prefix(std::min(digits.find_first_not_of(kSpace), digits.size()));
  digits = digits.substr(0, digits.find_last_not_of(kSpace) + 1);
  const auto value = parse_number<std::int64_t>(digits);
  if (!value) refuse_part(*this, fmt::format("has a {} that is not a whole number", one_line(part)));
  return *value;
}

at::Tensor WebSample::array(const std::string& part) const {
  const std::string& text = part_of(*this, part);
  auto tensor = tensor_of_npy(std::as_bytes(std::span(text)));
  if (!tensor) refuse_unread(*this, part, tensor.error().message());
  return *std::move(tensor);
}

std::map<std::string, at::Tensor> WebSample::arrays(const std::string& part) const {
  auto tensors = tensors_of_npz(part_of(*this, part));
  if (!tensors) refuse_unread(*this, part, tensors.error().message());
  return *std::move(tensors);
}

double WebSample::json_number(const std::string& part, const std::string& key) const {
  const nlohmann::json value = json_value(*this, part, key);
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  const auto number = value.is_number() ? value.get<double>() : 0;
  if (!value.is_number() || (value.is_number_integer() && std::abs(number) >= 0x1p53))
    refuse_json(*this, part, key, "is not a number that fits a double");
  return number;
}

std::string WebSample::json_text(const std::string& part, const std::string& key) const {
  const nlohmann::json value = json_value(*this, part, key);
  if (!value.is_string()) refuse_json(*this, part, key, "is not a string");
  return value.get<std::string>();
}

namespace detail {

std::vector<std::string> expand_archives(const std::vector<std::string>& names,
                                         const WebDatasetOptions& options) {
  check_argument(options.shuffle >= 0 && options.shuffle <= kLargestBuffer, "WebDataset: shuffle",
                 options.shuffle, fmt::format("from 0 to {} samples", kLargestBuffer));
  std::vector<std::string> all;
  for (const std::string& name : names) {
    if (const Status usable = check_is_path(name); !usable)
      throw std::runtime_error(usable.error().message());
    const std::size_t before = all.size();
    expand_braces(name, all);
    refuse_pattern(all[before]);
  }
  check_argument(!all.empty(), "WebDataset: the number of archives", all.size(), "at least 1");
  // Checks only the first archive. The others are checked when they are opened.
  if (const Status usable = TarReader::check_archive(all[0]); !usable)
    throw std::runtime_error(usable.error().message());
  return all;
}

void rethrow_undecoded(const std::string& key, const std::string& archive) {
  const std::string why = current_exception_text();
  const std::string sample = fmt::format("sample {} of {}", one_line(key), archive);
  std::throw_with_nested(
      std::runtime_error(why.starts_with(sample) ? why : fmt::format("{}: {}", sample, why)));
}

std::string name_of_archives(const std::vector<std::string>& archives) {
  return first_and_more(archives);
}

struct WebStream::State {
  std::optional<WebSample> read();
  bool open_one();

  std::deque<std::string> archives;  // not opened yet
  std::optional<Archive> archive;
  std::int64_t held_count;
  std::vector<WebSample> held;
};

// Opens the next archive, unless one is open. Returns false if there are no more archives.
bool WebStream::State::open_one() {
  if (archive) return true;
  if (archives.empty()) return false;
  const std::string path = std::move(archives.front());
  archives.pop_front();  // before opening, so that an archive that cannot be opened is not tried again
  archive.emplace(path);
  return true;
}

// Returns the next sample in the archives' order.
std::optional<WebSample> WebStream::State::read() {
  while (open_one()) {
    if (auto sample = archive->next()) return sample;
    archive.reset();
  }
  return std::nullopt;
}

WebStream::WebStream(const std::vector<std::string>& archives, const WebDatasetOptions& options,
                     const Shard& shard)
    : state_(std::make_unique<State>(
          State{.archives = {}, .archive = {}, .held_count = options.shuffle, .held = {}})) {
  const std::vector<std::size_t> order = order_of_parts(archives.size(), options.shardshuffle, shard);
  for (auto i = static_cast<std::size_t>(shard.index); i < order.size();
       i += static_cast<std::size_t>(shard.count))
    state_->archives.push_back(archives[order[i]]);
}

WebStream::~WebStream() = default;

std::optional<WebSample> WebStream::next() {
  State& state = *state_;
  if (state.held_count == 0) return state.read();
  while (std::ssize(state.held) < state.held_count) {
    auto sample = state.read();
    if (!sample) break;
    state.held.push_back(*std::move(sample));
  }
  if (state.held.empty()) return std::nullopt;
  std::swap(state.held[static_cast<std::size_t>(sample_random().below(std::ssize(state.held)))],
            state.held.back());
  WebSample drawn = std::move(state.held.back());
  state.held.pop_back();
  return drawn;
}

// Skips `count` samples. If a sample or an archive cannot be read, it counts as one sample, as in a loader
// that skips bad samples.
bool WebStream::skip(std::int64_t count) {
  State& state = *state_;
  if (state.held_count > 0) return false;
  while (count > 0) {
    try {
      if (!state.open_one()) break;
      if (state.archive->skip())
        --count;
      else
        state.archive.reset();
    } catch (const std::runtime_error&) {
      --count;
    }
  }
  return true;
}

}  // namespace detail

}  // namespace muster
