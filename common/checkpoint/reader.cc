#include "common/checkpoint/reader.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/copy_past_caches.h"
#include "common/base/file.h"
#include "common/base/quiet_thread.h"
#include "common/base/text.h"
#include "common/checkpoint/direct_file.h"

namespace muster {

namespace {

// A thread reads this many bytes in one go. Then it takes the next piece of work.
constexpr std::uint64_t kWorkBytes = 32 << 20;

// Copies bytes out of one file. Call finish() after the last copy. Until then, some of the bytes may not be
// verified.
class ChunkCopier {
 public:
  // `buffer` must outlive this object.
  ChunkCopier(std::string path, const ManifestFile& file, Buffer& buffer, UniqueFd fd)
      : path_(std::move(path)), file_(file), buffer_(buffer), fd_(std::move(fd)) {}
  ChunkCopier(std::string path, const ManifestFile& file, Buffer& buffer, DirectFile direct)
      : path_(std::move(path)), file_(file), buffer_(buffer), direct_(std::move(direct)) {}
  ChunkCopier(std::string path, const ManifestFile& file, Buffer& buffer, FileMapping mapping)
      : path_(std::move(path)), file_(file), buffer_(buffer), mapping_(std::move(mapping)) {}

  // Copies bytes out of the file. If several calls in a row need the same chunk, the chunk is read only once.
  Status copy(std::uint64_t from, std::byte* to, std::uint64_t count, std::string_view tensor) {
    while (count > 0) {
      const std::uint64_t chunk = from / file_.chunk_bytes;
      const std::uint64_t begin = chunk * file_.chunk_bytes;
      const std::uint64_t end = chunk_end(file_, chunk);
      const std::uint64_t here = std::min(count, end - from);
      Status read;
      if (mapping_) {
        read = copy_mapped(chunk, from, to, here, tensor);
      } else if (here == end - begin && chunk != loaded_ && !direct_) {
        read = load(chunk, to, tensor);
      } else {
        read = keep(chunk, tensor);
        if (read) copy_past_caches(to, kept_ + (from - begin), here);
      }
      if (!read) return read;
      from += here;
      to += here;
      count -= here;
    }
    return {};
  }

  Status finish() {
    if (!mapping_ || !loaded_) return {};
    const std::uint64_t chunk = *std::exchange(loaded_, std::nullopt);
    hash_until(chunk_end(file_, chunk));
    return expect_written(*digest_, chunk, tensor_);
  }

 private:
  // A piece of this size is read and then hashed. It is so small that it is still in the processor's cache
  // when it is hashed.
  static constexpr std::uint64_t kPieceBytes = 128 << 10;

  // Copies bytes from a mapping, and hashes them in the same pass. When the next chunk begins, the chunk
  // before it is verified.
  Status copy_mapped(std::uint64_t chunk, std::uint64_t from, std::byte* to, std::uint64_t count,
                     std::string_view tensor) {
    if (chunk != loaded_) {
      if (Status right = finish(); !right) return right;
      loaded_ = chunk;
      digest_ = std::make_unique<Digest>();
      hashed_until_ = chunk * file_.chunk_bytes;
    }
    tensor_ = tensor;
    hash_until(from);
    const std::uint64_t hashed = std::min(hashed_until_ - from, count);
    copy_past_caches(to, mapping_->bytes() + from, hashed);
    copy_past_caches(to + hashed, mapping_->bytes() + from + hashed, count - hashed,
                     [this](std::span<const std::byte> bytes) { hash(bytes); });
    return {};
  }
  void hash_until(std::uint64_t end) {
    if (end > hashed_until_) hash({mapping_->bytes() + hashed_until_, end - hashed_until_});
  }
  void hash(std::span<const std::byte> bytes) {
    digest_->add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    hashed_until_ += bytes.size();
  }

  Status load(std::uint64_t chunk, std::byte* to, std::string_view tensor) {
    const std::uint64_t begin = chunk * file_.chunk_bytes;
    const std::uint64_t size = chunk_end(file_, chunk) - begin;
    Digest digest;
    if (direct_)
      if (Status read = direct_->read_chunk(chunk, reinterpret_cast<char*>(to)); !read) return read;
    for (std::uint64_t done = 0; done < size; done += kPieceBytes) {
      const std::uint64_t count = std::min(kPieceBytes, size - done);
      auto* const piece = reinterpret_cast<char*>(to) + done;
      if (fd_)
        if (Status read = read_fully(fd_.get(), piece, count, begin + done, path_); !read) return read;
      digest.add({piece, count});
    }
    return expect_written(digest, chunk, tensor);
  }
  Status expect_written(const Digest& digest, std::uint64_t chunk, std::string_view tensor) const {
    if (digest.value() == file_.chunks[chunk]) return {};
    return failure(
        ErrorCode::kCorrupt,
        "cannot use {}: its bytes {} to {} are not those that were written; they belong to tensor {}", path_,
        chunk * file_.chunk_bytes, chunk_end(file_, chunk), one_line(std::string(tensor)));
  }
  Status keep(std::uint64_t chunk, std::string_view tensor) {
    if (chunk == loaded_) return {};
    loaded_.reset();
    auto* const room = reinterpret_cast<std::byte*>(buffer_.with_room(DirectFile::direct_bytes(file_)));
    if (room == nullptr) return failure(ErrorCode::kUnavailable, "no memory to read {}", path_);
    kept_ = room;
    if (Status read = load(chunk, room, tensor); !read) return read;
    loaded_ = chunk;
    return {};
  }

  std::string path_;
  const ManifestFile& file_;
  Buffer& buffer_;
  UniqueFd fd_;
  std::optional<DirectFile> direct_;
  std::optional<FileMapping> mapping_;
  std::optional<std::uint64_t> loaded_;
  const std::byte* kept_ = nullptr;  // the loaded chunk
  // Used only with a mapping, for the loaded chunk:
  std::unique_ptr<Digest> digest_;
  std::uint64_t hashed_until_ = 0;
  std::string_view tensor_;  // the tensor last copied from
};

// Calls work(i, buffer) for each i below `count`. Uses at most `threads` threads. This thread is one of them.
// Each thread has a buffer of its own.
template <class Work>
void in_threads(int threads, std::size_t count, Work work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    Buffer buffer;
    for (std::size_t i = next++; i < count; i = next++) work(i, buffer);
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(std::max(threads, 1)), count); ++i) {
    try {
      others.push_back(start_quiet_thread("muster-read", [&](const std::stop_token&) { run(); }));
    } catch (const std::system_error&) {
      break;  // continues with the threads that did start
    }
  }
  run();
}

std::uint64_t work_bytes(const ManifestFile& file) {
  return std::max(kWorkBytes / file.chunk_bytes, std::uint64_t{1}) * file.chunk_bytes;
}

// Splits a request into pieces, at the multiples of `piece` bytes in the file. If a request has several runs,
// it is not split.
void add_in_pieces(std::vector<PartRequest>& pieces, PartRequest request, std::uint64_t piece) {
  while (request.copy.loops.empty()) {
    const std::uint64_t first = piece - request.copy.file_begin % piece;
    if (request.copy.run_bytes <= first) break;
    PartRequest head = request;
    head.copy.run_bytes = first;
    pieces.push_back(std::move(head));
    request.copy.run_bytes -= first;
    request.copy.file_begin += first;
    request.copy.target_begin += first;
  }
  pieces.push_back(std::move(request));
}

// Splits the pieces into groups. A group has the pieces that begin in the same part of a file. One thread
// reads a whole group, so no chunk is read by two threads.
std::vector<std::span<const PartRequest>> shares_of(std::span<const PartRequest> pieces,
                                                    std::span<const ManifestFile> files) {
  const auto place_of = [&](const PartRequest& piece) {
    return std::pair(piece.copy.file, piece.copy.file_begin / work_bytes(files[piece.copy.file]));
  };
  std::vector<std::span<const PartRequest>> shares;
  for (auto begin = pieces.begin(); begin != pieces.end();) {
    const auto end = std::find_if(
        begin, pieces.end(), [&](const PartRequest& piece) { return place_of(piece) != place_of(*begin); });
    shares.emplace_back(begin, end);
    begin = end;
  }
  return shares;
}

Expected<ChunkCopier> direct_copier(const std::string& path, const ManifestFile& file, Buffer& buffer) {
  auto direct = DirectFile::open(path, file);
  if (!direct) return std::unexpected(direct.error());
  return ChunkCopier(path, file, buffer, *std::move(direct));
}

Expected<ChunkCopier> mapping_copier(const std::string& path, const ManifestFile& file, Buffer& buffer) {
  auto mapping = FileMapping::of(path, file.size_bytes);
  if (!mapping) return std::unexpected(mapping.error());
  return ChunkCopier(path, file, buffer, *std::move(mapping));
}

Expected<ChunkCopier> cached_copier(const std::string& path, const ManifestFile& file,
                                    std::span<const PartRequest> share, Buffer& buffer) {
  auto fd = open_file(path, file.size_bytes);
  if (!fd) return std::unexpected(fd.error());
  const std::uint64_t begin = share.front().copy.file_begin / file.chunk_bytes * file.chunk_bytes;
  posix_fadvise(fd->get(), static_cast<off_t>(begin),
                static_cast<off_t>(share.back().copy.file_end() - begin), POSIX_FADV_WILLNEED);
  return ChunkCopier(path, file, buffer, *std::move(fd));
}

Status read_share(const std::string& directory, std::span<const ManifestFile> files,
                  std::span<const PartRequest> share, ReadBy by, Buffer& buffer) {
  const ManifestFile& file = files[share.front().copy.file];
  CHECK(!file.chunks.empty(), "{} has no digests: with_contents(verified) finds them", file.name);
  const std::string path = directory + "/" + file.name;
  auto copier = by == ReadBy::kDirect    ? direct_copier(path, file, buffer)
                : by == ReadBy::kMapping ? mapping_copier(path, file, buffer)
                                         : cached_copier(path, file, share, buffer);
  if (!copier) return std::unexpected(copier.error());
  Status result;
  for (const PartRequest& request : share) {
    for_each_run(request.copy, [&](std::uint64_t from, std::uint64_t to, std::uint64_t count) {
      result = copier->copy(from, request.target + to, count, request.tensor);
      return result.has_value();
    });
    if (!result) return result;
  }
  return copier->finish();
}

// In format 1 the keys of a file begin with these words: "rank." for a tensor that only one rank has,
// "value:" for a value, and "xxh3:" for a digest.
constexpr std::string_view kOfRankKey = "rank.";
constexpr std::string_view kValueKey = "value:";
constexpr std::string_view kDigestKey = "xxh3:";

void add_header(CheckpointManifest& manifest, std::uint32_t file, const SafetensorsHeader& header) {
  for (const HeaderTensor& tensor : header.tensors) {
    const bool of_rank = tensor.name.starts_with(kOfRankKey);
    Contents& contents = of_rank ? manifest.own[file] : manifest.shared;
    contents.tensors[of_rank ? tensor.name.substr(kOfRankKey.size()) : tensor.name] = {
        .dtype = tensor.dtype,
        .shape = tensor.shape,
        .parts = {{.file = file, .offset_bytes = tensor.begin_bytes, .slice = whole_of(tensor.shape)}}};
  }
  for (const auto& [key, value] : header.metadata)
    if (key.starts_with(kValueKey)) manifest.shared.values[key.substr(kValueKey.size())] = value;
}

// Computes the digests of the file's chunks. Returns kCorrupt if the digest of the whole file is not the one
// in the manifest.
Status find_chunks(const std::string& path, ManifestFile& file) {
  const auto fd = open_file(path, file.size_bytes);
  if (!fd) return std::unexpected(fd.error());
  posix_fadvise(fd->get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  Buffer buffer;
  char* const bytes = buffer.with_room(std::min(file.chunk_bytes, file.size_bytes));
  if (bytes == nullptr) return failure(ErrorCode::kUnavailable, "no memory to read {}", path);
  Digest whole;
  file.chunks.clear();
  for (std::uint64_t begin = 0; begin < file.size_bytes; begin += file.chunk_bytes) {
    const std::uint64_t size = std::min(file.chunk_bytes, file.size_bytes - begin);
    if (Status read = read_fully(fd->get(), bytes, size, begin, path); !read) return read;
    whole.add({bytes, size});
    file.chunks.push_back(digest_of({bytes, size}));
  }
  if (whole.text() != file.xxh3)
    return failure(ErrorCode::kCorrupt, "cannot use {}: its digest is {}, the manifest says {}", path,
                   whole.text(), file.xxh3);
  return {};
}

// Returns the tensors of a file of format 1 whose digests do not match those in its header.
std::vector<Damage> find_damaged_tensors(const std::string& path, const ManifestFile& file) {
  std::vector<Damage> found;
  const auto header = read_header(path);
  const auto fd = open_file(path, file.size_bytes);
  if (!header || !fd) return found;
  Buffer buffer;
  for (const HeaderTensor& tensor : header->tensors) {
    const auto digest = header->metadata.find(std::string(kDigestKey) + tensor.name);
    char* const bytes = buffer.with_room(std::max(tensor.size_bytes, std::uint64_t{1}));
    if (digest == header->metadata.end() || bytes == nullptr ||
        !read_fully(fd->get(), bytes, tensor.size_bytes, tensor.begin_bytes, path) ||
        xxh3_digest({bytes, tensor.size_bytes}) == digest->second)
      continue;
    found.push_back({.file = file.name,
                     .begin_bytes = tensor.begin_bytes,
                     .end_bytes = tensor.begin_bytes + tensor.size_bytes,
                     .tensors = {tensor.name},
                     .text = {}});
  }
  return found;
}

// The range of a tensor in a file.
struct Place {
  std::uint64_t begin_bytes;
  std::uint64_t end_bytes;
  std::string name;
  Dtype dtype;
  const Extents* shape;
};

class Places {
 public:
  explicit Places(const CheckpointManifest& manifest) : of_file_(manifest.files.size()) {
    add(manifest.shared, "");
    for (std::size_t rank = 0; rank < manifest.own.size(); ++rank)
      add(manifest.own[rank], fmt::format(" of rank {}", rank));
    for (auto& places : of_file_) std::ranges::sort(places, {}, &Place::begin_bytes);
  }

  const std::vector<Place>& of_file(std::size_t file) const { return of_file_[file]; }
  // Returns a text for each of the first tensors in this range of the file. An example is "weight from byte
  // 128 on".
  std::vector<std::string> in(std::size_t file, std::uint64_t begin, std::uint64_t end) const {
    constexpr std::size_t kMost = 4;
    std::vector<std::string> names;
    for (const Place& place : of_file_[file]) {
      if (place.end_bytes <= begin || place.begin_bytes >= end) continue;
      if (names.size() == kMost) {
        names.emplace_back("others");
        break;
      }
      names.push_back(fmt::format("{} from byte {} on", one_line(place.name), place.begin_bytes));
    }
    return names;
  }

 private:
  void add(const Contents& contents, const std::string& whose) {
    for (const auto& [name, tensor] : contents.tensors) {
      for (const StoredPart& part : tensor.parts) {
        const std::uint64_t bytes = bytes_of(tensor.dtype, part.slice.sizes).value_or(0);
        of_file_[part.file].push_back({.begin_bytes = part.offset_bytes,
                                       .end_bytes = part.offset_bytes + bytes,
                                       .name = part_name(name, tensor.shape, part.slice) + whose,
                                       .dtype = tensor.dtype,
                                       .shape = &part.slice.sizes});
      }
    }
  }
  std::vector<std::vector<Place>> of_file_;
};

class Verification {
 public:
  Verification(const std::string& directory, const CheckpointManifest& manifest, const VerifyOptions& options)
      : directory_(directory), manifest_(manifest), options_(options), places_(manifest) {}

  std::vector<Damage> run() {
    struct Work {
      std::size_t file;
      std::uint64_t begin;
    };
    std::vector<Work> works;
    for (std::size_t i = 0; i < manifest_.files.size(); ++i) {
      const ManifestFile& file = manifest_.files[i];
      works.push_back({i, 0});
      if (manifest_.format == 1) continue;
      for (std::uint64_t at = work_bytes(file); at < file.size_bytes; at += work_bytes(file))
        works.push_back({i, at});
    }
    in_threads(options_.threads, works.size(),
               [&](std::size_t i, Buffer& buffer) { look_at(works[i].file, works[i].begin, buffer); });
    for (std::size_t i = 0; i < manifest_.files.size(); ++i)
      if (std::ranges::find(found_, i, &Found::file) == found_.end()) look_at_header(i);
    std::ranges::sort(found_, [](const Found& left, const Found& right) {
      return std::tie(left.file, left.damage.begin_bytes) < std::tie(right.file, right.damage.begin_bytes);
    });
    std::vector<Damage> damages;
    for (Found& found : found_) {
      // The work on a file is done in pieces. If the file cannot be opened or read, every piece has the same
      // error, and only the first one is reported.
      if (!damages.empty() && damages.back().text == found.damage.text) continue;
      damages.push_back(std::move(found.damage));
    }
    return damages;
  }

 private:
  // Muster itself reads only the manifest, but other tools read the header of the file. So this function
  // checks that the header has the same types, shapes and places of the tensors as the manifest.
  void look_at_header(std::size_t index) {
    const std::string path = directory_ + "/" + manifest_.files[index].name;
    const auto header = read_header(path);
    if (!header)
      return add(index,
                 {.file = manifest_.files[index].name, .tensors = {}, .text = header.error().message()});
    for (const Place& place : places_.of_file(index)) {
      const bool same = std::ranges::any_of(
          std::ranges::equal_range(header->tensors, place.begin_bytes, {}, &HeaderTensor::begin_bytes),
          [&](const HeaderTensor& tensor) {
            return tensor.dtype == place.dtype && tensor.shape == *place.shape;
          });
      if (!same)
        add(index, {.file = manifest_.files[index].name,
                    .begin_bytes = place.begin_bytes,
                    .end_bytes = place.end_bytes,
                    .tensors = {place.name},
                    .text = fmt::format("{}: its header and the manifest disagree about tensor {}", path,
                                        one_line(place.name))});
    }
  }

  void look_at(std::size_t index, std::uint64_t begin, Buffer& buffer) {
    const ManifestFile& file = manifest_.files[index];
    const std::string path = directory_ + "/" + file.name;
    const Status done =
        manifest_.format == 1 ? look_at_whole(index, path) : look_at_chunks(index, path, begin, buffer);
    if (!done) add(index, {.file = file.name, .tensors = {}, .text = done.error().message()});
  }

  Status look_at_whole(std::size_t index, const std::string& path) {
    ManifestFile file = manifest_.files[index];
    Status right = find_chunks(path, file);
    told(file.size_bytes);
    if (right) return right;
    const auto damaged = find_damaged_tensors(path, file);
    for (const Damage& damage : damaged) add(index, damage);
    return damaged.empty() ? right : Status();
  }

  Status look_at_chunks(std::size_t index, const std::string& path, std::uint64_t begin, Buffer& buffer) {
    const ManifestFile& file = manifest_.files[index];
    const std::uint64_t end = std::min(begin + work_bytes(file), file.size_bytes);
    auto direct = DirectFile::open(path, file);
    if (!direct) return std::unexpected(direct.error());
    char* const bytes = buffer.with_room(DirectFile::direct_bytes(file));
    if (bytes == nullptr) return failure(ErrorCode::kUnavailable, "no memory to read {}", path);
    for (std::uint64_t chunk = begin / file.chunk_bytes; chunk * file.chunk_bytes < end; ++chunk) {
      const std::uint64_t at = chunk * file.chunk_bytes;
      const std::uint64_t size = chunk_end(file, chunk) - at;
      const Status read = direct->read_chunk(chunk, bytes);
      if (!read) return read;
      if (digest_of({bytes, size}) != file.chunks[chunk])
        add(index, {.file = file.name,
                    .begin_bytes = at,
                    .end_bytes = at + size,
                    .tensors = places_.in(index, at, at + size),
                    .text = {}});
      told(size);
    }
    return {};
  }

  void told(std::uint64_t bytes) {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    options_.progress(bytes);
  }

  void add(std::size_t file, Damage damage) {
    if (damage.text.empty()) {
      std::string names;
      for (const std::string& name : damage.tensors) names += (names.empty() ? "" : ", ") + name;
      damage.text =
          fmt::format("{}/{}: bytes {} to {} are not those that were written: {}", directory_, damage.file,
                      damage.begin_bytes, damage.end_bytes, names.empty() ? "the header" : "tensor " + names);
    }
    const std::lock_guard lock(mutex_);
    found_.push_back({file, std::move(damage)});
  }

  const std::string& directory_;
  const CheckpointManifest& manifest_;
  const VerifyOptions& options_;
  const Places places_;
  struct Found {
    std::size_t file;
    Damage damage;
  };
  std::mutex mutex_;
  std::vector<Found> found_;
};

}  // namespace

Expected<std::vector<PartRequest>> requests_for(std::string_view name, const SavedTensor& tensor,
                                                const Slice& slice, std::byte* target) {
  auto copies = plan_slice(tensor, slice);
  if (!copies) return failure_within("tensor " + one_line(std::string(name)), std::move(copies));
  std::vector<PartRequest> requests;
  for (PartCopy& copy : *copies) requests.push_back({name, std::move(copy), target});
  return requests;
}

Status read_parts(const std::string& directory, std::span<const ManifestFile> files,
                  std::vector<PartRequest> requests, int threads, ReadBy by) {
  std::ranges::sort(requests, {}, [](const PartRequest& request) {
    return std::pair(request.copy.file, request.copy.file_begin);
  });
  std::vector<PartRequest> pieces;
  for (PartRequest& request : requests) {
    const std::uint64_t bytes = work_bytes(files[request.copy.file]);
    add_in_pieces(pieces, std::move(request), bytes);
  }
  const auto shares = shares_of(pieces, files);
  std::mutex mutex;
  Status result;
  in_threads(threads, shares.size(), [&](std::size_t i, Buffer& buffer) {
    {
      const std::lock_guard lock(mutex);
      if (!result) return;
    }
    Status read = read_share(directory, files, shares[i], by, buffer);
    const std::lock_guard lock(mutex);
    if (!read && result) result = std::move(read);
  });
  return result;
}

Expected<SafetensorsHeader> read_header(const std::string& path) {
  const auto fd = open_file(path, {});
  if (!fd) return std::unexpected(fd.error());
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return system_failure("cannot read " + path, errno);
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  std::string text(std::min(kHeaderLengthBytes, file_bytes), '\0');
  if (Status read = read_fully(fd->get(), text.data(), text.size(), 0, path); !read)
    return std::unexpected(read.error());
  const auto bytes = header_bytes(text, file_bytes);
  if (!bytes) return failure_within("cannot use " + path, Expected<void>(std::unexpected(bytes.error())));
  text.resize(*bytes);
  if (Status read = read_fully(fd->get(), text.data(), text.size(), kHeaderLengthBytes, path); !read)
    return std::unexpected(read.error());
  auto header = parse_header(text, file_bytes);
  if (!header) return failure_within("cannot use " + path, std::move(header));
  return header;
}

Expected<CheckpointManifest> with_contents(const std::string& directory, CheckpointManifest manifest,
                                           bool verified) {
  if (manifest.format != 1) return manifest;
  manifest.own.resize(manifest.files.size());
  for (std::uint32_t i = 0; i < manifest.files.size(); ++i) {
    ManifestFile& file = manifest.files[i];
    const std::string path = directory + "/" + file.name;
    if (verified) {
      if (Status right = find_chunks(path, file); !right) return std::unexpected(right.error());
    }
    const auto header = read_header(path);
    if (!header) return std::unexpected(header.error());
    std::size_t before = manifest.shared.tensors.size() + manifest.own[i].tensors.size();
    add_header(manifest, i, *header);
    if (manifest.shared.tensors.size() + manifest.own[i].tensors.size() != before + header->tensors.size())
      return failure(ErrorCode::kCorrupt, "cannot use {}: it has a tensor that is in another file too", path);
  }
  return manifest;
}

std::vector<Damage> verify_files(const std::string& directory, const CheckpointManifest& manifest,
                                 const VerifyOptions& options) {
  return Verification(directory, manifest, options).run();
}

}  // namespace muster
