#include "launcher/io/view/job_directory.h"

#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/wire/messages.h"

namespace muster::launcher {

std::string make_job_id(const std::string& name) {
  std::uint32_t random = 0;
  CHECK(getrandom(&random, sizeof random, 0) == sizeof random, "errno {}", errno);
  if (!name.empty()) return fmt::format("{}-{:08x}", name, random);
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{:08x}", date.tm_year + 1900, date.tm_mon + 1,
                     date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec, random);
}

Status make_job_directory(const std::string& path) {
  if (Status parents = make_directories(std::filesystem::path(path).parent_path().string()); !parents)
    return parents;
  if (mkdir(path.c_str(), 0755) != 0) return system_failure("cannot create directory " + path, errno);
  return {};
}

// Writes the file, but does not sync it, because that would delay the start. When the file is closed, other
// hosts see it.
Expected<std::string> leave_nonce(const std::string& directory) {
  std::uint64_t random[2] = {};
  CHECK(getrandom(random, sizeof random, 0) == sizeof random, "errno {}", errno);
  std::string digits = fmt::format("{:016x}{:016x}", random[0], random[1]);
  const std::string path = fmt::format("{}/{}", directory, wire::kLogNonceFile);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return system_failure("cannot write " + path, errno);
  if (Status written = write_all(fd.get(), digits, path); !written)
    return std::unexpected(std::move(written).error());
  return digits;
}

}  // namespace muster::launcher
