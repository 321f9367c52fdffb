// Any bytes as the file of --config.
#include "launcher/io/settings/config_file.h"

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "tests/fuzz/input.h"

namespace muster::launcher {
namespace {

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

}  // namespace
}  // namespace muster::launcher

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  static const int file = memfd_create("config", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  CHECK(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const auto config = launcher::read_config_file(path, {{"HOME", "/home/ada"}});
  if (!config) {
    CHECK(launcher::is_one_line(config.error().message()), "{}", config.error().message());
    return 0;
  }
  const auto options = launcher::make_options(
      config->settings, config->program, {.environment = {}, .working_directory = "/", .hostname = "host"});
  if (!options) CHECK(launcher::is_one_line(options.error().message()), "{}", options.error().message());
  return 0;
}
