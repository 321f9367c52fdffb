#include "launcher/io/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <limits>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kValueKey = "value:";
// The metadata of a file with a whole state has this key. Its value is the number of ranks that have saved
// the state.
constexpr std::string_view kRanksKey = "muster.ranks";
constexpr std::int32_t kMostRanks = 1 << 20;
constexpr int kReadThreads = 4;

// Cuts a slice into pieces of at most kExportPieceBytes, in the order of its elements. If an element has
// fewer than 8 bits, the slice is not cut.
void cut_into_pieces(Dtype dtype, const Slice& slice, std::vector<Slice>& pieces) {
  const auto cut = std::ranges::find_if(slice.sizes, [](std::int64_t size) { return size > 1; });
  if (cut == slice.sizes.end() || bits_of(dtype) < 8 ||
      bytes_of(dtype, slice.sizes).value_or(0) <= kExportPieceBytes) {
    pieces.push_back(slice);
    return;
  }
  const auto d = static_cast<std::size_t>(cut - slice.sizes.begin());
  Slice first = slice;
  Slice rest = slice;
  first.sizes[d] /= 2;
  rest.offsets[d] += first.sizes[d];
  rest.sizes[d] -= first.sizes[d];
  cut_into_pieces(dtype, first, pieces);
  cut_into_pieces(dtype, rest, pieces);
}

std::vector<Slice> pieces_of(const SavedTensor& tensor) {
  std::vector<Slice> pieces;
  cut_into_pieces(tensor.dtype, whole_of(tensor.shape), pieces);
  return pieces;
}

Status read_piece(const OpenCheckpoint& checkpoint, const std::string& name, const SavedTensor& tensor,
                  const Slice& piece, std::string& bytes) {
  bytes.resize(bytes_of(tensor.dtype, piece.sizes).value());
  auto requests = requests_for(name, tensor, piece, reinterpret_cast<std::byte*>(bytes.data()));
  if (!requests) return std::unexpected(requests.error());
  return read_parts(checkpoint.path, checkpoint.manifest.files, *std::move(requests), kReadThreads);
}

// Writes a file from its beginning to its end. Meanwhile, it computes the digests of the file's chunks.
class SequentialFile {
 public:
  SequentialFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  static Expected<SequentialFile> create(const std::string& path) {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd) return system_failure("cannot create " + path, errno);
    return SequentialFile(path, std::move(fd));
  }

  Status write(std::string_view bytes) {
    if (Status written = write_all(fd_.get(), bytes, path_); !written) return written;
    size_bytes_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kChunkBytes - pending_.size());
      pending_ += bytes.substr(0, count);
      bytes.remove_prefix(count);
      if (pending_.size() == kChunkBytes) end_chunk();
    }
    return {};
  }
  // Syncs the file to the disk.
  Status finish() {
    if (!pending_.empty()) end_chunk();
    return fsync(fd_.get()) == 0 ? Status() : system_failure("cannot sync " + path_, errno);
  }
  std::uint64_t size_bytes() const { return size_bytes_; }
  const std::vector<Digest128>& chunks() const { return chunks_; }

 private:
  void end_chunk() {
    chunks_.push_back(digest_of(pending_));
    pending_.clear();
  }
  std::string path_;
  UniqueFd fd_;
  std::string pending_;
  std::uint64_t size_bytes_ = 0;
  std::vector<Digest128> chunks_;
};

std::map<std::string, std::string> metadata_of(const CheckpointManifest& manifest, bool all) {
  // The library Transformers refuses files that do not have this entry.
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (!all) return metadata;
  metadata.emplace(kRanksKey, std::to_string(manifest.world_size));
  for (const auto& [key, value] : manifest.shared.values)
    metadata[fmt::format("{}{}", kValueKey, key)] = value;
  for (std::size_t rank = 0; rank < manifest.own.size(); ++rank)
    for (const auto& [key, value] : manifest.own[rank].values)
      metadata[fmt::format("{}rank.{}.{}", kValueKey, rank, key)] = value;
  return metadata;
}

Expected<Written> write_tensors(const OpenCheckpoint& checkpoint, bool all, const std::string& path) {
  const auto tensors = tensors_of(checkpoint.manifest, all);
  std::vector<HeaderTensor> headers;
  for (const auto& [name, tensor] : tensors)
    headers.push_back({.name = name, .dtype = tensor->dtype, .shape = tensor->shape});
  const auto head = lay_out(headers, metadata_of(checkpoint.manifest, all));
  if (!head) return std::unexpected(head.error());
  auto file = SequentialFile::create(path);
  if (!file) return std::unexpected(file.error());
  Status done = file->write(head->text);
  std::string bytes;
  for (const HeaderTensor& header : headers) {
    const SavedTensor& tensor = *tensors.at(header.name);
    for (const Slice& piece : pieces_of(tensor)) {
      if (done) done = read_piece(checkpoint, header.name, tensor, piece, bytes);
      if (done) done = file->write(bytes);
    }
  }
  if (done) done = file->finish();
  if (!done) return std::unexpected(done.error());
  return Written{.tensor_count = headers.size(), .size_bytes = file->size_bytes()};
}

// The file to import.
struct Source {
  std::string path;
  SafetensorsHeader header;
  std::int32_t ranks = 1;
  bool whole_state = false;
};

// A tensor's or value's place in the state.
struct Destination {
  std::optional<std::size_t> rank;  // the owner; nothing: shared by all ranks
  std::string name;
};

// Returns where a tensor of an imported file belongs. "rank.3.NAME" gives rank 3 and NAME. Any other name
// gives no rank.
Destination destination_of(const Source& source, std::string_view name) {
  constexpr std::string_view kRank = "rank.";
  if (!source.whole_state) return {.rank = {}, .name = fmt::format("{}{}", kModelPrefix, name)};
  const std::string_view rest = name.starts_with(kRank) ? name.substr(kRank.size()) : "";
  const std::size_t dot = rest.find('.');
  const auto rank = parse_number<std::int32_t>(rest.substr(0, dot));
  if (dot == rest.npos || !rank || *rank < 0 || *rank >= source.ranks)
    return {.rank = {}, .name = std::string(name)};
  return {.rank = static_cast<std::size_t>(*rank), .name = std::string(rest.substr(dot + 1))};
}

Expected<Source> open_source(const std::string& path) {
  auto header = read_header(path);
  if (!header) return std::unexpected(header.error());
  Source source{.path = path, .header = *std::move(header)};
  if (const auto ranks = source.header.metadata.find(std::string(kRanksKey));
      ranks != source.header.metadata.end()) {
    const auto count = parse_number<std::int32_t>(ranks->second);
    if (!count || *count < 1 || *count > kMostRanks)
      return failure(ErrorCode::kCorrupt, "cannot use {}: {} is {}, which is not a number of ranks", path,
                     kRanksKey, one_line(ranks->second));
    source.ranks = *count;
    source.whole_state = true;
  }
  if (source.header.tensors.empty()) return failure(ErrorCode::kInvalidArgument, "{} has no tensors", path);
  return source;
}

// The contents of the checkpoint's file. `tensors` has the tensors in the order of that file, under the names
// that they get there, such as "rank.0.NAME". `source_begin` says for each of these names where the tensor
// begins in the source.
struct ImportLayout {
  std::vector<HeaderTensor> tensors;
  std::map<std::string, std::uint64_t> source_begin;
  FileHead head;
};

Expected<ImportLayout> lay_out_import(const Source& source, CheckpointManifest& manifest) {
  ImportLayout layout;
  std::map<std::string, Destination> destinations;
  for (const HeaderTensor& tensor : source.header.tensors) {
    const Destination destination = destination_of(source, tensor.name);
    // The tensors that each rank has of its own are all in one file. Two ranks may use the same name, so the
    // names in the file begin with the rank.
    const std::string name =
        destination.rank ? fmt::format("rank.{}.{}", *destination.rank, destination.name) : destination.name;
    layout.tensors.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape});
    layout.source_begin[name] = tensor.begin_bytes;
    destinations[name] = destination;
  }
  auto head = lay_out(layout.tensors, {{"format", "pt"}});
  if (!head) return failure_within("cannot use " + source.path, std::move(head));
  layout.head = *std::move(head);
  manifest.own.resize(static_cast<std::size_t>(source.ranks));
  const auto contents_of = [&](const Destination& destination) -> Contents& {
    return destination.rank ? manifest.own[*destination.rank] : manifest.shared;
  };
  for (const HeaderTensor& tensor : layout.tensors) {
    const Destination& destination = destinations[tensor.name];
    contents_of(destination).tensors[destination.name] = {
        .dtype = tensor.dtype,
        .shape = tensor.shape,
        .parts = {{.file = 0, .offset_bytes = tensor.begin_bytes, .slice = whole_of(tensor.shape)}}};
  }
  for (const auto& [key, value] : source.header.metadata) {
    if (!source.whole_state || !key.starts_with(kValueKey)) continue;
    const Destination destination = destination_of(source, std::string_view(key).substr(kValueKey.size()));
    contents_of(destination).values[destination.name] = value;
  }
  return layout;
}

Status copy_bytes(int from, const std::string& path, std::uint64_t begin, std::uint64_t count,
                  SequentialFile& to) {
  std::string bytes;
  for (std::uint64_t done = 0; done < count;) {
    bytes.resize(std::min(kExportPieceBytes, count - done));
    const ssize_t got = pread(from, bytes.data(), bytes.size(), static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("cannot read " + path, errno);
    if (got == 0) return failure(ErrorCode::kCorrupt, "{} became shorter during the read", path);
    if (Status written = to.write(std::string_view(bytes).substr(0, static_cast<std::size_t>(got))); !written)
      return written;
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

Expected<Written> write_import(const Source& source, const CheckpointDirectory& directory,
                               const ImportLayout& layout, CheckpointManifest& manifest) {
  const UniqueFd from(open(source.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from) return system_failure("cannot open " + source.path, errno);
  const std::string step = directory.path_of(manifest.id);
  if (Status made = make_directories(step); !made) return std::unexpected(made.error());
  const std::string name = "rank-00000.safetensors";
  auto file = SequentialFile::create(step + "/" + name);
  if (!file) return std::unexpected(file.error());
  Status done = file->write(layout.head.text);
  for (const HeaderTensor& tensor : layout.tensors) {
    if (done)
      done =
          copy_bytes(from.get(), source.path, layout.source_begin.at(tensor.name), tensor.size_bytes, *file);
  }
  if (done) done = file->finish();
  if (done) done = sync_directory(step);
  if (!done) return std::unexpected(done.error());
  manifest.files = {{.name = name, .size_bytes = file->size_bytes(), .chunks = file->chunks()}};
  CHECK(check_manifest(manifest), "{}", check_manifest(manifest).error().message());
  done = write_file_durably(directory.manifest_path(manifest.id), encode_manifest(manifest));
  if (done) done = sync_directory(directory.path());
  if (!done) return std::unexpected(done.error());
  return Written{.tensor_count = layout.tensors.size(), .size_bytes = file->size_bytes()};
}

std::string description_of(const SavedTensor& tensor) {
  return fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(tensor.shape, ", "));
}

// Returns the value of a floating-point number of 8 or 16 bits. It has infinities as in IEEE 754.
double small_float(unsigned bits, int exponent_bits, int mantissa_bits) {
  const unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
  const unsigned exponent = (bits >> mantissa_bits) & ((1U << exponent_bits) - 1);
  const double sign = ((bits >> (mantissa_bits + exponent_bits)) & 1U) != 0 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1U << exponent_bits) - 1)
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const double fraction = mantissa + (exponent == 0 ? 0.0 : std::ldexp(1.0, mantissa_bits));
  return sign * std::ldexp(fraction, std::max(static_cast<int>(exponent), 1) - bias - mantissa_bits);
}

template <class Number>
Number number_at(const char* bytes) {
  Number number{};
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

// Returns the element as a long double, because large integers have more digits than a double can hold.
// Returns nothing if the type has no plain numbers.
std::optional<long double> value_at(Dtype dtype, const char* bytes) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kU8: return number_at<std::uint8_t>(bytes);
    case Dtype::kI8: return number_at<std::int8_t>(bytes);
    case Dtype::kU16: return number_at<std::uint16_t>(bytes);
    case Dtype::kI16: return number_at<std::int16_t>(bytes);
    case Dtype::kU32: return number_at<std::uint32_t>(bytes);
    case Dtype::kI32: return number_at<std::int32_t>(bytes);
    case Dtype::kU64: return number_at<std::uint64_t>(bytes);
    case Dtype::kI64: return number_at<std::int64_t>(bytes);
    case Dtype::kF16: return small_float(number_at<std::uint16_t>(bytes), 5, 10);
    case Dtype::kBF16: return small_float(number_at<std::uint16_t>(bytes), 8, 7);
    case Dtype::kF8E5M2: return small_float(number_at<std::uint8_t>(bytes), 5, 2);
    case Dtype::kF32: return number_at<float>(bytes);
    case Dtype::kF64: return number_at<double>(bytes);
    default: return std::nullopt;
  }
}

double distance(long double left, long double right) {
  if (left == right || (std::isnan(left) && std::isnan(right))) return 0;
  const long double difference = std::abs(left - right);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : static_cast<double>(difference);
}

// Returns the index of an element in the tensor. `element` is its number in the slice.
Extents index_of(std::uint64_t element, const Slice& slice) {
  Extents index = slice.offsets;
  for (std::size_t d = index.size(); d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(slice.sizes[d]);
    index[d] += static_cast<std::int64_t>(element % size);
    element /= size;
  }
  return index;
}

// Compares the elements of two pieces that have the same length. If two elements differ by more than all
// pairs so far, stores this difference in `difference`.
void compare_numbers(Dtype dtype, const Slice& piece, const std::string& left, const std::string& right,
                     TensorDifference& difference) {
  const std::size_t size = bits_of(dtype) / 8;
  for (std::size_t at = 0; size > 0 && at + size <= left.size(); at += size) {
    if (std::memcmp(&left[at], &right[at], size) == 0) continue;
    const auto first = value_at(dtype, &left[at]);
    const auto second = value_at(dtype, &right[at]);
    if (!first || !second) return;
    const double apart = distance(*first, *second);
    if (difference.largest && apart <= *difference.largest) continue;
    difference.largest = apart;
    difference.at = index_of(at / size, piece);
  }
}

// Returns how the two tensors differ. If they are equal, the text in it is empty.
Expected<TensorDifference> difference_of(const OpenCheckpoint& left, const OpenCheckpoint& right,
                                         const std::string& name, const SavedTensor& in_left,
                                         const SavedTensor& in_right) {
  TensorDifference difference{.name = name, .text = ""};
  if (in_left.dtype != in_right.dtype || in_left.shape != in_right.shape) {
    difference.text = fmt::format("{} and {}", description_of(in_left), description_of(in_right));
    return difference;
  }
  std::uint64_t at = 0;
  std::uint64_t count = 0;
  std::optional<std::uint64_t> first;
  std::string left_bytes;
  std::string right_bytes;
  for (const Slice& piece : pieces_of(in_left)) {
    Status read = read_piece(left, name, in_left, piece, left_bytes);
    if (read) read = read_piece(right, name, in_right, piece, right_bytes);
    if (!read) return std::unexpected(read.error());
    if (left_bytes != right_bytes) {
      for (std::size_t i = 0; i < left_bytes.size(); ++i) {
        if (left_bytes[i] == right_bytes[i]) continue;
        if (!first) first = at + i;
        ++count;
      }
      compare_numbers(in_left.dtype, piece, left_bytes, right_bytes, difference);
    }
    at += left_bytes.size();
  }
  if (!first) return difference;
  difference.text = fmt::format("{} of {} bytes differ, the first is {}", count, at, *first);
  if (difference.largest) difference.text += fmt::format("; at most {}", largest_text(difference));
  return difference;
}

}  // namespace

std::string largest_text(const TensorDifference& difference) {
  const std::string number = fmt::format("{:.6g}", difference.largest.value());
  return difference.at.empty() ? number : fmt::format("{} at [{}]", number, fmt::join(difference.at, ", "));
}

Expected<OpenCheckpoint> open_checkpoint(const CheckpointDirectory& directory, CheckpointId id,
                                         bool verified) {
  const std::string path = directory.path_of(id);
  auto manifest = directory.read_manifest(id);
  if (manifest) manifest = with_contents(path, *std::move(manifest), verified);
  if (!manifest) return std::unexpected(manifest.error());
  return OpenCheckpoint{.path = path, .manifest = *std::move(manifest)};
}

std::map<std::string, const SavedTensor*> tensors_of(const CheckpointManifest& manifest, bool all) {
  std::map<std::string, const SavedTensor*> tensors;
  for (const auto& [name, tensor] : manifest.shared.tensors) {
    if (all)
      tensors[name] = &tensor;
    else if (name.starts_with(kModelPrefix))
      tensors[name.substr(kModelPrefix.size())] = &tensor;
  }
  for (std::size_t rank = 0; all && rank < manifest.own.size(); ++rank)
    for (const auto& [name, tensor] : manifest.own[rank].tensors)
      tensors[fmt::format("rank.{}.{}", rank, name)] = &tensor;
  return tensors;
}

Expected<Written> export_tensors(const OpenCheckpoint& checkpoint, bool all, const std::string& path) {
  Written written;
  const Status replaced = replace_file(path, [&](const std::string& temporary) -> Status {
    auto done = write_tensors(checkpoint, all, temporary);
    if (!done) return std::unexpected(std::move(done).error());
    written = *done;
    return {};
  });
  if (!replaced) return std::unexpected(replaced.error());
  if (const Status synced = sync_directory_above(path); !synced) return std::unexpected(synced.error());
  return written;
}

Expected<Imported> import_tensors(const std::string& path, const CheckpointDirectory& directory,
                                  std::uint64_t step) {
  const auto source = open_source(path);
  if (!source) return std::unexpected(source.error());
  CheckpointManifest manifest{.job = "import", .world_size = source->ranks, .written_at = std::time(nullptr)};
  const auto layout = lay_out_import(*source, manifest);
  if (!layout) return std::unexpected(layout.error());
  const auto attempt = directory.begin_attempt(manifest.job, /*take_over=*/false);
  if (!attempt) return std::unexpected(attempt.error());
  manifest.id = {.step = step, .attempt = attempt->attempt};
  auto written = write_import(*source, directory, *layout, manifest);
  if (!written) {
    (void)directory.remove(manifest.id);
    return std::unexpected(written.error());
  }
  return Imported{.id = manifest.id, .written = *written};
}

Expected<std::vector<TensorDifference>> compare(const OpenCheckpoint& left, const OpenCheckpoint& right) {
  const auto in_left = tensors_of(left.manifest, /*all=*/true);
  const auto in_right = tensors_of(right.manifest, /*all=*/true);
  std::set<std::string> names;
  for (const auto& [name, tensor] : in_left) names.insert(name);
  for (const auto& [name, tensor] : in_right) names.insert(name);
  std::vector<TensorDifference> differences;
  for (const std::string& name : names) {
    const auto first = in_left.find(name);
    const auto second = in_right.find(name);
    if (second == in_right.end()) {
      differences.push_back({name, "only in the first, " + description_of(*first->second)});
    } else if (first == in_left.end()) {
      differences.push_back({name, "only in the second, " + description_of(*second->second)});
    } else {
      auto difference = difference_of(left, right, name, *first->second, *second->second);
      if (!difference) return std::unexpected(difference.error());
      if (!difference->text.empty()) differences.push_back(*std::move(difference));
    }
  }
  return differences;
}

}  // namespace muster::launcher
