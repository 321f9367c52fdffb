#include "runtime/checkpoint/shard.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/wire/digest.h"

namespace muster {

namespace {

constexpr std::size_t kReadBytes = 64 << 20;

Expected<ManifestFile> write_content(const std::string& path, const std::string& name,
                                     const Safetensors& content) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return system_failure("cannot create " + path, errno);
  ManifestFile file{.name = name, .size_bytes = 0, .xxh3 = {}};
  Digest digest;
  Status written = encode_safetensors(content, [&](std::string_view bytes) {
    digest.add(bytes);
    file.size_bytes += bytes.size();
    return write_all(fd.get(), bytes, path);
  });
  if (!written) return failure_within("cannot write " + name, std::move(written));
  if (fsync(fd.get()) != 0) return system_failure("cannot sync " + path, errno);
  file.xxh3 = digest.text();
  return file;
}

Status read_into(const at::Tensor& buffer, const std::string& path, Digest& digest) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure("cannot open " + path, errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return system_failure("cannot read " + path, errno);
  if (status.st_size != buffer.numel()) {
    return failure(ErrorCode::kCorrupt, "cannot use {}: it has {} bytes, the manifest says {}", path,
                   status.st_size, buffer.numel());
  }
  auto* place = static_cast<char*>(buffer.mutable_data_ptr());
  for (auto left = static_cast<std::size_t>(buffer.numel()); left > 0;) {
    const ssize_t got = read(fd.get(), place, std::min(left, kReadBytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("cannot read " + path, errno);
    if (got == 0)
      return failure(ErrorCode::kCorrupt, "cannot use {}: it became shorter while it was read", path);
    digest.add({place, static_cast<std::size_t>(got)});
    place += got;
    left -= static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

std::string shard_name(int rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

Expected<ManifestFile> write_shard(const std::string& directory, const std::string& name,
                                   const Safetensors& content) {
  const std::string path = directory + "/" + name;
  const std::string temporary = path + ".tmp";
  auto file = write_content(temporary, name, content);
  if (file && rename(temporary.c_str(), path.c_str()) != 0)
    file = system_failure("cannot rename to " + path, errno);
  if (!file) {
    unlink(temporary.c_str());
    return file;
  }
  if (Status synced = sync_directory(directory); !synced) return std::unexpected(synced.error());
  return file;
}

Expected<Safetensors> read_shard(const std::string& directory, const ManifestFile& file) {
  const std::string path = directory + "/" + file.name;
  // Checked before memory is taken for it.
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return system_failure("cannot open " + path, errno);
  if (static_cast<std::uint64_t>(status.st_size) != file.size_bytes) {
    return failure(ErrorCode::kCorrupt, "cannot use {}: it has {} bytes, the manifest says {}", path,
                   status.st_size, file.size_bytes);
  }
  at::Tensor buffer;
  try {
    buffer = at::empty({static_cast<std::int64_t>(file.size_bytes)}, at::kByte);
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kUnavailable, "no memory for {}, which has {} bytes: {}", path, file.size_bytes,
                   error.what_without_backtrace());
  }
  Digest digest;
  if (Status read = read_into(buffer, path, digest); !read) return std::unexpected(read.error());
  if (digest.text() != file.xxh3) {
    return failure(ErrorCode::kCorrupt, "cannot use {}: its digest is {}, the manifest says {}", path,
                   digest.text(), file.xxh3);
  }
  auto content = parse_safetensors(buffer);
  if (!content) return failure_within("cannot use " + path, std::move(content));
  return content;
}

}  // namespace muster
