#include "runtime/data/datasets/compressed_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "runtime/data/datasets/file_kind.h"
#ifdef MUSTER_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

namespace muster {

// Returns the unpacked contents of a file, from the beginning to the end. A ByteSource does not buffer these
// contents.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads at least one byte and at most `size` bytes. Returns how many bytes it has read. At the end, it
  // returns 0.
  virtual Expected<std::size_t> read(char* to, std::size_t size) = 0;
  // If the number of bytes that follow is known, left() returns it. Only then can seek() be called. It skips
  // bytes without reading them.
  virtual std::optional<std::uint64_t> left() const { return std::nullopt; }
  virtual Status seek(std::uint64_t) { return {}; }
  virtual bool is_checked() const { return true; }  // true if checksums protect the contents
};

namespace {

constexpr std::size_t kBufferBytes = 256 << 10;
constexpr std::size_t kFirstFillBytes = 16 << 10;  // after a skip, or a read that bypassed the buffer
constexpr std::size_t kDirectBytes = 64 << 10;     // reads of this size and more bypass the buffer
constexpr std::uint64_t kStepBytes = 1 << 20;
constexpr std::size_t kLookedBytes = 512;  // the kind of the file is recognized by these first bytes

class PlainSource : public ByteSource {
 public:
  // `size` is 0 if it is not known.
  PlainSource(std::string path, UniqueFd fd, std::uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  Expected<std::size_t> read(char* to, std::size_t size) override {
    for (;;) {
      const ssize_t got = ::read(fd_.get(), to, size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_failure("cannot read " + path_, errno);
      at_ += static_cast<std::uint64_t>(got);
      return static_cast<std::size_t>(got);
    }
  }
  std::optional<std::uint64_t> left() const override {
    if (size_ == 0) return std::nullopt;
    return size_ - std::min(size_, at_);
  }
  Status seek(std::uint64_t size) override {
    if (lseek(fd_.get(), static_cast<off_t>(size), SEEK_CUR) < 0)
      return system_failure("cannot read " + path_, errno);
    at_ += size;
    return {};
  }
  bool is_checked() const override { return false; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
};

// Holds bytes of a compressed file that were read but not yet unpacked.
class PackedInput {
 public:
  PackedInput(PlainSource file, std::unique_ptr<char[]> buffer, std::size_t filled)
      : file_(std::move(file)), buffer_(std::move(buffer)), end_(filled) {}

  // Returns the next bytes of the file. There are at least `count` of them. Only at the end of the file,
  // there can be fewer. They are valid until take() is called.
  Expected<std::string_view> bytes(std::size_t count) {
    if (end_ - begin_ < count) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
    }
    while (end_ - begin_ < count) {
      const auto got = file_.read(buffer_.get() + end_, kBufferBytes - end_);
      if (!got) return std::unexpected(got.error());
      if (*got == 0) break;
      end_ += *got;
    }
    return std::string_view(buffer_.get() + begin_, end_ - begin_);
  }
  void take(std::size_t count) { begin_ += count; }

  std::unexpected<Error> damaged(const std::string& what) const {
    return failure(ErrorCode::kCorrupt, "cannot read {}: {}", file_.path(), one_line(what));
  }
  std::unexpected<Error> cut_off() const { return damaged("it is cut off"); }

 private:
  PlainSource file_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_;
};

constexpr const char* kWrongChecksum = "its checksum is wrong, so it is damaged";

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(PackedInput input) : input_(std::move(input)) {
    constexpr int kOnlyGzip = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kOnlyGzip) != Z_OK) throw std::bad_alloc();
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&stream_); }

  Expected<std::size_t> read(char* to, std::size_t size) override {
    const auto room = static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = room;
    while (stream_.avail_out == room) {
      const auto bytes = input_.bytes(is_between_ ? 2 : 1);
      if (!bytes) return std::unexpected(bytes.error());
      if (is_between_) {
        if (!bytes->starts_with("\x1f\x8b")) return pass_padding();
        inflateReset(&stream_);
        is_between_ = false;
      }
      if (bytes->empty()) return input_.cut_off();
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes->data()));  // NOLINT: C's interface
      stream_.avail_in = static_cast<uInt>(bytes->size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      input_.take(bytes->size() - stream_.avail_in);
      is_between_ = code == Z_STREAM_END;
      // First returns the bytes before the damage. The next call finds the damage again and then fails.
      if (code < 0 && code != Z_BUF_ERROR && stream_.avail_out == room) return refuse();
    }
    return room - stream_.avail_out;
  }

 private:
  // Tapes can put zeros after the data. Skips these zeros. If other bytes follow, this is an error, because
  // they could be a damaged member of the gzip file.
  Expected<std::size_t> pass_padding() {
    for (;;) {
      const auto bytes = input_.bytes(1);
      if (!bytes) return std::unexpected(bytes.error());
      if (bytes->empty()) return 0;
      if (bytes->find_first_not_of('\0') != std::string_view::npos)
        return input_.damaged("other bytes follow the data that gzip has compressed");
      input_.take(bytes->size());
    }
  }
  std::unexpected<Error> refuse() const {
    const std::string_view why = stream_.msg == nullptr ? "it cannot be decompressed" : stream_.msg;
    return input_.damaged(why == "incorrect data check" ? kWrongChecksum : std::string(why));
  }

  PackedInput input_;
  z_stream stream_{};
  bool is_between_ = false;  // between two members, or at the end
};

#ifdef MUSTER_ZSTD
class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(PackedInput input) : input_(std::move(input)), stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
  }

  Expected<std::size_t> read(char* to, std::size_t size) override {
    ZSTD_outBuffer out{.dst = to, .size = size, .pos = 0};
    while (out.pos == 0) {
      const auto bytes = input_.bytes(1);
      if (!bytes) return std::unexpected(bytes.error());
      if (bytes->empty() && !is_inside_) return 0;
      ZSTD_inBuffer in{.src = bytes->data(), .size = bytes->size(), .pos = 0};
      const std::size_t result = ZSTD_decompressStream(stream_.get(), &out, &in);
      if (ZSTD_isError(result) != 0) return refuse(ZSTD_getErrorCode(result));
      if (bytes->empty() && out.pos == 0) return input_.cut_off();
      input_.take(in.pos);
      is_inside_ = result != 0;
    }
    return out.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unexpected<Error> refuse(ZSTD_ErrorCode code) const {
    switch (code) {
      case ZSTD_error_checksum_wrong: return input_.damaged(kWrongChecksum);
      case ZSTD_error_frameParameter_windowTooLarge:
        return input_.damaged("zstd needs more than 128 MiB to unpack it; compress it without --long");
      case ZSTD_error_prefix_unknown:
        return input_.damaged("other bytes follow the data that zstd has compressed");
      case ZSTD_error_dictionary_wrong:
        return input_.damaged("it was compressed with a dictionary; compress it without one");
      default: return input_.damaged(fmt::format("it is damaged: {}", ZSTD_getErrorString(code)));
    }
  }

  PackedInput input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool is_inside_ = false;  // inside a frame
};
#endif

}  // namespace

CompressedFile::CompressedFile(std::unique_ptr<ByteSource> source, std::unique_ptr<char[]> buffer,
                               std::size_t filled)
    : source_(std::move(source)),
      buffer_(std::move(buffer)),
      end_(filled),
      next_fill_bytes_(source_->left() ? kFirstFillBytes : kBufferBytes) {}
CompressedFile::CompressedFile(CompressedFile&&) noexcept = default;
CompressedFile& CompressedFile::operator=(CompressedFile&&) noexcept = default;
CompressedFile::~CompressedFile() = default;

Expected<CompressedFile> CompressedFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure("cannot open " + path, errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return system_failure("cannot read " + path, errno);
  const std::uint64_t size = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
  PlainSource file(path, std::move(fd), size);
  auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  std::size_t filled = 0;
  while (filled < kLookedBytes) {
    const auto got = file.read(buffer.get() + filled, kBufferBytes - filled);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    filled += *got;
  }
  const auto kind = file_kind(std::as_bytes(std::span(buffer.get(), std::min(filled, kLookedBytes))),
                              size > 0 ? size : std::numeric_limits<std::uint64_t>::max());
  if (kind != FileKind::kGzip && kind != FileKind::kZstd)
    return CompressedFile(std::make_unique<PlainSource>(std::move(file)), std::move(buffer), filled);
  PackedInput input(std::move(file), std::move(buffer), filled);
  std::unique_ptr<ByteSource> source;
  if (kind == FileKind::kGzip) {
    source = std::make_unique<GzipSource>(std::move(input));
  } else {
#ifdef MUSTER_ZSTD
    source = std::make_unique<ZstdSource>(std::move(input));
#else
    return failure(ErrorCode::kInvalidArgument,
                   "cannot read {}: it is compressed by zstd, and this Muster was built without libzstd: "
                   "install libzstd-dev and build Muster again, or unpack the file with `zstd -d`",
                   path);
#endif
  }
  return CompressedFile(std::move(source), std::make_unique_for_overwrite<char[]>(kBufferBytes), 0);
}

std::size_t CompressedFile::drop(std::size_t size) {
  const std::size_t dropped = std::min(size, end_ - begin_);
  begin_ += dropped;
  return dropped;
}

std::size_t CompressedFile::take(char* to, std::size_t size) {
  const char* const from = buffer_.get() + begin_;
  const std::size_t taken = drop(size);
  std::memcpy(to, from, taken);
  return taken;
}

// After a skip, the first fill is small. Each later fill is twice as large as the one before. This is good
// for a reader that skips a member of an archive, because it then needs only the header of the next member.
Expected<std::size_t> CompressedFile::fill() {
  begin_ = end_ = 0;
  const auto got = source_->read(buffer_.get(), next_fill_bytes_);
  next_fill_bytes_ = std::min(2 * next_fill_bytes_, kBufferBytes);
  end_ = got.value_or(0);
  return got;
}

Expected<std::size_t> CompressedFile::read(void* to, std::size_t size) {
  char* const begin = static_cast<char*>(to);
  std::size_t had = take(begin, size);
  while (had < size) {
    const bool direct = size - had >= kDirectBytes;
    const auto got = direct ? source_->read(begin + had, size - had) : fill();
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    if (direct && source_->left()) next_fill_bytes_ = kFirstFillBytes;
    had += direct ? *got : take(begin + had, size - had);
  }
  return had;
}

Status CompressedFile::skip(std::int64_t size) {
  auto rest = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
  rest -= drop(static_cast<std::size_t>(rest));
  if (rest > 0 && source_->left()) {
    next_fill_bytes_ = kFirstFillBytes;
    return source_->seek(rest);
  }
  while (rest > 0) {
    const auto got = fill();
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    rest -= drop(static_cast<std::size_t>(rest));
  }
  return {};
}

Expected<std::string> CompressedFile::read_text(std::uint64_t most) {
  std::string bytes;
  const auto left = source_->left();
  const std::uint64_t first = left ? std::max<std::uint64_t>(*left + (end_ - begin_), 1) : kStepBytes;
  while (bytes.size() < most) {
    const std::size_t had = bytes.size();
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(most - had, std::max(first, had)));
    Expected<std::size_t> got = 0;
    bytes.resize_and_overwrite(had + step, [&](char* to, std::size_t) {
      got = read(to + had, step);
      return had + got.value_or(0);
    });
    if (!got) return std::unexpected(got.error());
    if (*got < step) break;
  }
  return bytes;
}

Status CompressedFile::check_rest() {
  if (!source_->is_checked()) return {};
  for (;;) {
    const auto got = fill();
    if (!got) return std::unexpected(got.error());
    if (*got == 0) return {};
  }
}

}  // namespace muster
