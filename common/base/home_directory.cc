#include "common/base/home_directory.h"

#include <cstdlib>
#include <pwd.h>
#include <unistd.h>
#include <vector>

namespace muster {

std::string home_directory() {
  const char* variable = std::getenv("HOME");
  if (variable != nullptr && *variable == '/') return variable;
  constexpr std::size_t kRoomBytes = 64 << 10;
  std::vector<char> room(kRoomBytes);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr) return "";
  const std::string home = entry.pw_dir;
  return home.starts_with('/') ? home : "";
}

}  // namespace muster
