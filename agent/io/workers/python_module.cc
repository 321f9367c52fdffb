#include "agent/io/workers/python_module.h"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string_view>

#include "common/base/file.h"

// A zip file; agent/CMakeLists.txt makes it.
extern const unsigned char muster_python_module[];
extern const std::size_t muster_python_module_size;

namespace muster::agent {

Expected<std::string> write_python_module(const std::string& directory) {
  const std::string path = directory + "/python.zip";
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return system_failure("cannot make " + path, errno);
  const std::string_view bytes(reinterpret_cast<const char*>(muster_python_module),
                               muster_python_module_size);
  if (Status written = write_all(file.get(), bytes, path); !written) return std::unexpected(written.error());
  return path;
}

}  // namespace muster::agent
