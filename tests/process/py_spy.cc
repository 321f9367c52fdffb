#include "tests/process/py_spy.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

namespace muster {

std::optional<std::string> path_with_py_spy() {
  constexpr const char* kLook = R"(
import os, subprocess, sys
look = subprocess.run(["py-spy", "dump", "--pid", str(os.getpid())], capture_output=True, text=True)
sys.exit("MainThread" not in look.stdout)
)";
  const std::string path =
      fmt::format("{}:{}", std::filesystem::path(TORCH_PYTHON).parent_path().string(), std::getenv("PATH"));
  const int status = std::system(fmt::format("PATH='{}' python3 -c '{}' 2>/dev/null", path, kLook).c_str());
  return status == 0 ? std::optional(path) : std::nullopt;
}

}  // namespace muster
