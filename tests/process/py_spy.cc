#include "tests/process/py_spy.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>

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

std::string link_to_python(const std::filesystem::path& folder) {
  FILE* const asked = popen("python3 -c 'import sys; print(sys.executable, end=str())'", "r");
  char python[4096] = "";
  EXPECT_GT(fread(python, 1, sizeof python - 1, asked), 0U);
  pclose(asked);
  const std::filesystem::path link = folder / "python3";
  std::filesystem::create_symlink(std::filesystem::canonical(python), link);
  return link;
}

}  // namespace muster
