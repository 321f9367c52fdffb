#include "agent/io/workers/run_directory.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"

// The zip file with the Python module `muster`, which agent/CMakeLists.txt makes.
extern const unsigned char muster_python_module[];
extern const std::size_t muster_python_module_size;

namespace muster::agent {

namespace {

constexpr std::size_t kMostNameBytes = 32;  // of a socket in the directory, with the slash

}  // namespace

Expected<std::unique_ptr<RunDirectory>> RunDirectory::make() {
  const char* chosen = std::getenv("TMPDIR");
  std::string pattern =
      std::string(chosen != nullptr && *chosen != '\0' ? chosen : "/tmp") + "/muster-XXXXXX";
  // The path of a socket can have at most 107 bytes. So a long TMPDIR cannot be used.
  if (pattern.size() + kMostNameBytes >= sizeof(sockaddr_un::sun_path)) pattern = "/tmp/muster-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr)
    return system_failure("cannot make the directory " + pattern, errno);
  std::unique_ptr<RunDirectory> made(new RunDirectory(pattern));
  if (geteuid() == 0 && chmod(pattern.c_str(), 0711) != 0)
    return system_failure("cannot open the directory " + pattern, errno);
  if (Status written = made->write_python_module(); !written)
    log::error("{}; Python programs cannot import muster", written.error().message());
  return made;
}

RunDirectory::~RunDirectory() {
  remove_run_directory(path_);
}

Status RunDirectory::write_python_module() {
  const std::string path = path_ + "/python.zip";
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return system_failure("cannot make " + path, errno);
  const std::string_view bytes(reinterpret_cast<const char*>(muster_python_module),
                               muster_python_module_size);
  if (Status written = write_all(file.get(), bytes, path); !written) return written;
  python_module_ = path;
  return {};
}

void remove_run_directory(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

}  // namespace muster::agent
