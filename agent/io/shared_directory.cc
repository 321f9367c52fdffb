#include "agent/io/shared_directory.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "common/base/file.h"

namespace muster::agent {

std::string why_not_shared(const std::string& directory, const std::string& path,
                           const std::function<bool(const std::string& text)>& is_its) {
  constexpr std::uint64_t kMostBytes = 64 << 10;
  const auto text = read_regular_file(path, kMostBytes);
  if (text) return is_its(*text) ? "" : "is a different directory there";
  if (access(directory.c_str(), F_OK) != 0) return fmt::format("is not there ({})", std::strerror(errno));
  if (text.error().code() == ErrorCode::kNotFound) return "is a different directory there";
  return "cannot be read there: " + text.error().message();
}

}  // namespace muster::agent
