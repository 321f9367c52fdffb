#include "common/checkpoint/reader.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/quiet_thread.h"
#include "common/base/text.h"

namespace muster {

namespace {

constexpr std::uint64_t kPage = 4096;
// What one thread reads before it takes the next piece of work.
constexpr std::uint64_t kWorkBytes = 32 << 20;

// Its bytes go away with it; begins at a page.
class Buffer {
 public:
  explicit Buffer(std::uint64_t bytes)
      : bytes_(static_cast<char*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage))) {}
  char* data() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<char, Free> bytes_;
};

// An open file that has the size that the manifest says. `size_bytes`: any, if there is none.
Expected<UniqueFd> open_file(const std::string& path, std::optional<std::uint64_t> size_bytes,
                             int flags = 0) {
  // Never waits for what is no file.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (!fd && flags != 0 && errno == EINVAL) return open_file(path, size_bytes);
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) != 0) return system_failure("cannot open " + path, errno);
  if (!S_ISREG(status.st_mode)) return failure(ErrorCode::kCorrupt, "cannot use {}: it is no file", path);
  if (size_bytes && static_cast<std::uint64_t>(status.st_size) != *size_bytes)
    return failure(ErrorCode::kCorrupt, "cannot use {}: it has {} bytes, the manifest says {}", path,
                   status.st_size, *size_bytes);
  return fd;
}

// `room`: how much may be read over, which a read past the page cache needs at the file's end.
Status read_fully(int fd, char* to, std::uint64_t count, std::uint64_t offset, const std::string& path,
                  std::uint64_t room = 0) {
  for (std::uint64_t done = 0; done < count;) {
    const ssize_t got = pread(fd, to + done, std::max(count, room) - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("cannot read " + path, errno);
    if (got == 0)
      return failure(ErrorCode::kCorrupt, "cannot use {}: it became shorter while it was read", path);
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

std::uint64_t chunk_end(const ManifestFile& file, std::uint64_t chunk) {
  return std::min((chunk + 1) * file.chunk_bytes, file.size_bytes);
}

// One file, from which verified chunks are copied.
class ChunkCopier {
 public:
  ChunkCopier(std::string path, const ManifestFile& file, UniqueFd fd)
      : path_(std::move(path)), file_(file), fd_(std::move(fd)) {}

  // Forward in the file is fastest: a chunk that is needed again right after is not read again.
  Status copy(std::uint64_t from, std::byte* to, std::uint64_t count, std::string_view tensor) {
    while (count > 0) {
      const std::uint64_t chunk = from / file_.chunk_bytes;
      const std::uint64_t begin = chunk * file_.chunk_bytes;
      const std::uint64_t end = chunk_end(file_, chunk);
      const std::uint64_t here = std::min(count, end - from);
      Status read;
      if (here == end - begin && chunk != loaded_) {
        read = load(chunk, reinterpret_cast<char*>(to), tensor);
      } else {
        read = keep(chunk, tensor);
        if (read) std::memcpy(to, buffer_->data() + (from - begin), here);
      }
      if (!read) return read;
      from += here;
      to += here;
      count -= here;
    }
    return {};
  }

 private:
  Status load(std::uint64_t chunk, char* to, std::string_view tensor) const {
    const std::uint64_t begin = chunk * file_.chunk_bytes;
    const std::uint64_t size = chunk_end(file_, chunk) - begin;
    // In pieces that the processor's cache still holds as they are hashed.
    constexpr std::uint64_t kCachedBytes = 256 << 10;
    Digest digest;
    for (std::uint64_t done = 0; done < size; done += kCachedBytes) {
      const std::uint64_t count = std::min(kCachedBytes, size - done);
      if (Status read = read_fully(fd_.get(), to + done, count, begin + done, path_); !read) return read;
      digest.add({to + done, count});
    }
    if (digest.value() == file_.chunks[chunk]) return {};
    return failure(ErrorCode::kCorrupt,
                   "cannot use {}: its bytes {} to {} are not those that were written; tensor {} lies there",
                   path_, begin, begin + size, one_line(std::string(tensor)));
  }
  Status keep(std::uint64_t chunk, std::string_view tensor) {
    if (chunk == loaded_) return {};
    if (!buffer_) buffer_.emplace(std::min(file_.chunk_bytes, file_.size_bytes));
    if (buffer_->data() == nullptr) return failure(ErrorCode::kUnavailable, "no memory to read {}", path_);
    loaded_.reset();
    if (Status read = load(chunk, buffer_->data(), tensor); !read) return read;
    loaded_ = chunk;
    return {};
  }

  std::string path_;
  const ManifestFile& file_;
  UniqueFd fd_;
  std::optional<Buffer> buffer_;
  std::optional<std::uint64_t> loaded_;
};

// Calls work(i) for each i below `count`, in so many threads, this one among them.
template <class Work>
void in_threads(int threads, std::size_t count, Work work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(std::max(threads, 1)), count); ++i) {
    try {
      others.push_back(start_quiet_thread("muster-read", [&](const std::stop_token&) { run(); }));
    } catch (const std::system_error&) {
      break;  // as many as there are
    }
  }
  run();
}

// One run of bytes may be cut, at the ends of chunks.
void add_in_pieces(std::vector<PartRequest>& pieces, PartRequest request, std::uint64_t chunk_bytes) {
  const std::uint64_t piece = std::max(kWorkBytes / chunk_bytes, std::uint64_t{1}) * chunk_bytes;
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

// Readers beside each other go through all files at the same pace, each through its own first.
void put_in_order(std::vector<std::span<const PartRequest>>& shares, std::size_t files, ReadBeside beside) {
  std::ranges::sort(shares, {}, [&](const auto& share) {
    const PartCopy& first = share.front().copy;
    const std::size_t own_first = (first.file + files - beside.reader % files) % files;
    return std::tuple(first.file_begin / kWorkBytes, own_first, first.file_begin);
  });
}

// Work for one thread each: neighbours in a file stay together.
std::vector<std::span<const PartRequest>> shares_of(std::span<const PartRequest> pieces) {
  std::vector<std::span<const PartRequest>> shares;
  std::size_t begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > begin && (pieces[i].copy.file != pieces[begin].copy.file || bytes >= kWorkBytes)) {
      shares.push_back(pieces.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += pieces[i].copy.file_end() - pieces[i].copy.file_begin;
  }
  if (!pieces.empty()) shares.push_back(pieces.subspan(begin));
  return shares;
}

Status read_share(const std::string& directory, std::span<const ManifestFile> files,
                  std::span<const PartRequest> share) {
  const ManifestFile& file = files[share.front().copy.file];
  CHECK(!file.chunks.empty(), "{} has no digests: with_contents(verified) finds them", file.name);
  const std::string path = directory + "/" + file.name;
  auto fd = open_file(path, file.size_bytes);
  if (!fd) return std::unexpected(fd.error());
  const std::uint64_t begin = share.front().copy.file_begin / file.chunk_bytes * file.chunk_bytes;
  posix_fadvise(fd->get(), static_cast<off_t>(begin),
                static_cast<off_t>(share.back().copy.file_end() - begin), POSIX_FADV_WILLNEED);
  ChunkCopier copier(path, file, *std::move(fd));
  Status result;
  for (const PartRequest& request : share) {
    for_each_run(request.copy, [&](std::uint64_t from, std::uint64_t to, std::uint64_t count) {
      result = copier.copy(from, request.target + to, count, request.tensor);
      return result.has_value();
    });
    if (!result) return result;
  }
  return result;
}

// What the first format says of a tensor's rank.
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

// The digests of its chunks, if the whole file has the digest that the manifest says.
Status find_chunks(const std::string& path, ManifestFile& file) {
  const auto fd = open_file(path, file.size_bytes);
  if (!fd) return std::unexpected(fd.error());
  posix_fadvise(fd->get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  const Buffer buffer(std::min(file.chunk_bytes, file.size_bytes));
  Digest whole;
  file.chunks.clear();
  for (std::uint64_t begin = 0; begin < file.size_bytes; begin += file.chunk_bytes) {
    const std::uint64_t size = std::min(file.chunk_bytes, file.size_bytes - begin);
    if (Status read = read_fully(fd->get(), buffer.data(), size, begin, path); !read) return read;
    whole.add({buffer.data(), size});
    file.chunks.push_back(digest_of({buffer.data(), size}));
  }
  if (whole.text() != file.xxh3)
    return failure(ErrorCode::kCorrupt, "cannot use {}: its digest is {}, the manifest says {}", path,
                   whole.text(), file.xxh3);
  return {};
}

// Of a file of the first format whose digest is wrong: the tensors whose own digests, in the header, are.
std::vector<Damage> find_damaged_tensors(const std::string& path, const ManifestFile& file) {
  std::vector<Damage> found;
  const auto header = read_header(path);
  const auto fd = open_file(path, file.size_bytes);
  if (!header || !fd) return found;
  for (const HeaderTensor& tensor : header->tensors) {
    const auto digest = header->metadata.find(std::string(kDigestKey) + tensor.name);
    const Buffer buffer(std::max(tensor.size_bytes, std::uint64_t{1}));
    if (digest == header->metadata.end() || buffer.data() == nullptr ||
        !read_fully(fd->get(), buffer.data(), tensor.size_bytes, tensor.begin_bytes, path) ||
        xxh3_digest({buffer.data(), tensor.size_bytes}) == digest->second)
      continue;
    found.push_back({.file = file.name,
                     .begin_bytes = tensor.begin_bytes,
                     .end_bytes = tensor.begin_bytes + tensor.size_bytes,
                     .tensors = {tensor.name},
                     .text = {}});
  }
  return found;
}

// Where which tensor lies in a file.
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
  // The first ones that lie there, with the byte of the file from which on they do.
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
      for (std::uint64_t at = share_of(file); at < file.size_bytes; at += share_of(file))
        works.push_back({i, at});
    }
    in_threads(options_.threads, works.size(),
               [&](std::size_t i) { look_at(works[i].file, works[i].begin); });
    for (std::size_t i = 0; i < manifest_.files.size(); ++i)
      if (std::ranges::find(found_, i, &Found::file) == found_.end()) look_at_header(i);
    std::ranges::sort(found_, [](const Found& left, const Found& right) {
      return std::tie(left.file, left.damage.begin_bytes) < std::tie(right.file, right.damage.begin_bytes);
    });
    std::vector<Damage> damages;
    for (Found& found : found_) {
      // One that cannot be opened or read is told once.
      if (!damages.empty() && damages.back().text == found.damage.text) continue;
      damages.push_back(std::move(found.damage));
    }
    return damages;
  }

 private:
  static std::uint64_t share_of(const ManifestFile& file) {
    return std::max(kWorkBytes / file.chunk_bytes, std::uint64_t{1}) * file.chunk_bytes;
  }

  // Other tools go by the header: it says the same as the manifest, of types, shapes and places.
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
                    .text = fmt::format("{}: its header does not say what the manifest does of tensor {}",
                                        path, one_line(place.name))});
    }
  }

  void look_at(std::size_t index, std::uint64_t begin) {
    const ManifestFile& file = manifest_.files[index];
    const std::string path = directory_ + "/" + file.name;
    const Status done =
        manifest_.format == 1 ? look_at_whole(index, path) : look_at_chunks(index, path, begin);
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

  Status look_at_chunks(std::size_t index, const std::string& path, std::uint64_t begin) {
    const ManifestFile& file = manifest_.files[index];
    const std::uint64_t end = std::min(begin + share_of(file), file.size_bytes);
    const bool whole_pages = file.chunk_bytes % kPage == 0;
    auto fd = open_file(path, file.size_bytes, whole_pages ? O_DIRECT : 0);
    if (!fd) return std::unexpected(fd.error());
    const Buffer buffer(std::min(file.chunk_bytes, file.size_bytes + kPage));
    if (buffer.data() == nullptr) return failure(ErrorCode::kUnavailable, "no memory to read {}", path);
    for (std::uint64_t chunk = begin / file.chunk_bytes; chunk * file.chunk_bytes < end; ++chunk) {
      const std::uint64_t at = chunk * file.chunk_bytes;
      const std::uint64_t size = chunk_end(file, chunk) - at;
      const std::uint64_t room = whole_pages ? (size + kPage - 1) / kPage * kPage : 0;
      Status read = read_fully(fd->get(), buffer.data(), size, at, path, room);
      if (!read && whole_pages) {  // some file systems open it so, and read it not
        fd = open_file(path, file.size_bytes);
        if (!fd) return std::unexpected(fd.error());
        read = read_fully(fd->get(), buffer.data(), size, at, path);
      }
      if (!read) return read;
      if (digest_of({buffer.data(), size}) != file.chunks[chunk])
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
                  std::vector<PartRequest> requests, int threads, ReadBeside beside) {
  std::ranges::sort(requests, {}, [](const PartRequest& request) {
    return std::pair(request.copy.file, request.copy.file_begin);
  });
  std::vector<PartRequest> pieces;
  for (PartRequest& request : requests) {
    const std::uint64_t chunk_bytes = files[request.copy.file].chunk_bytes;
    add_in_pieces(pieces, std::move(request), chunk_bytes);
  }
  auto shares = shares_of(pieces);
  put_in_order(shares, files.size(), beside);
  std::mutex mutex;
  Status result;
  in_threads(threads, shares.size(), [&](std::size_t i) {
    {
      const std::lock_guard lock(mutex);
      if (!result) return;
    }
    Status read = read_share(directory, files, shares[i]);
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
