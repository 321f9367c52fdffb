// Any words after `launch`, one per line.
#include "launcher/io/settings/command_line.h"

#include <algorithm>

#include "common/base/check.h"
#include "launcher/core/settings/arguments.h"
#include "tests/fuzz/input.h"

namespace muster::launcher {
namespace {

// Such a file of this machine is not a part of the input.
bool names_a_file(const Arguments& arguments) {
  return std::ranges::any_of(arguments.flags, [](const auto& given) {
    const std::string_view name = given.flag->name;
    return name == "config" || name == "hostfile" || name == "env-file";
  });
}

}  // namespace
}  // namespace muster::launcher

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  std::vector<std::string> words;
  while (!input.empty()) words.emplace_back(input.until('\n'));
  if (const auto sorted = launcher::sort_arguments(words); sorted && launcher::names_a_file(*sorted))
    return 0;
  const auto request =
      launcher::read_command_line(words, {.environment = {}, .working_directory = "/", .hostname = "host"});
  if (!request) {
    CHECK(!request.error().message().empty());
    CHECK(request.error().message().find('\n') == std::string::npos, "{}", request.error().message());
  }
  return 0;
}
