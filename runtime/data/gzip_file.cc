#include "runtime/data/gzip_file.h"

#include <algorithm>
#include <cerrno>
#include <zlib.h>

#include "common/base/text.h"

namespace muster {

namespace {

constexpr unsigned kGzipBufferBytes = 128 << 10;
constexpr std::size_t kGzipStepBytes = 1 << 20;

}  // namespace

void GzipFile::Close::operator()(gzFile_s* file) const {
  gzclose(file);
}

Expected<GzipFile> GzipFile::open(const std::string& path) {
  errno = 0;
  gzFile_s* const file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return system_failure("cannot open " + path, errno != 0 ? errno : ENOMEM);
  gzbuffer(file, kGzipBufferBytes);
  return GzipFile(path, file);
}

Expected<std::size_t> GzipFile::read(void* to, std::size_t size) {
  std::size_t had = 0;
  while (had < size) {
    const auto step = static_cast<unsigned>(std::min(size - had, kGzipStepBytes));
    const int got = gzread(file_.get(), static_cast<char*>(to) + had, step);
    had += static_cast<std::size_t>(std::max(got, 0));
    if (got == static_cast<int>(step)) continue;
    int code = Z_OK;
    std::string text = gzerror(file_.get(), &code);
    if (const std::string name = path_ + ": "; text.starts_with(name)) text.erase(0, name.size());
    if (text == "incorrect data check") text = "its checksum is wrong, so it is damaged";
    if (code != Z_OK && code != Z_BUF_ERROR)
      return failure(ErrorCode::kCorrupt, "cannot read {}: {}", path_,
                     code == Z_ERRNO ? "input/output error" : one_line(std::move(text)));
    if (got > 0) continue;
    if (code != Z_OK) return failure(ErrorCode::kCorrupt, "cannot read {}: it is cut off", path_);
    break;
  }
  return had;
}

Status GzipFile::skip(std::int64_t size) {
  if (size > 0 && gzseek(file_.get(), size, SEEK_CUR) < 0)
    return failure(ErrorCode::kCorrupt, "cannot read {}: it cannot be passed over", path_);
  return {};
}

Expected<std::string> GzipFile::read_text(std::uint64_t most) {
  std::string bytes;
  while (bytes.size() < most) {
    const std::size_t had = bytes.size();
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(most - had, kGzipStepBytes));
    bytes.resize(had + step);
    const auto got = read(bytes.data() + had, step);
    if (!got) return std::unexpected(got.error());
    bytes.resize(had + *got);
    if (*got < step) break;
  }
  return bytes;
}

Status GzipFile::check_rest() {
  if (gzdirect(file_.get()) != 0) return {};
  std::string unused(kGzipBufferBytes, '\0');
  for (;;) {
    const auto got = read(unused.data(), unused.size());
    if (!got) return std::unexpected(got.error());
    if (*got < unused.size()) return {};
  }
}

}  // namespace muster
