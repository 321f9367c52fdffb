// Any bytes as the value of --hosts, as the file of --hostfile and as the list of --include.
#include "launcher/core/settings/hosts.h"

#include <algorithm>

#include "common/base/check.h"
#include "tests/fuzz/input.h"

namespace muster::launcher {
namespace {

// An accepted name is safe in an argv: it is one word, and not a flag.
bool is_safe(const std::string& name) {
  return !name.empty() && name.front() != '-' && std::ranges::none_of(name, [](char each) {
    return static_cast<unsigned char>(each) <= ' ' || each == 0x7f ||
           std::string_view("'\"\\`$;&|<>()*?!#~").contains(each);
  });
}

void hold(const Expected<std::vector<Host>>& read) {
  if (!read) return check_refusal(read.error());
  for (const Host& host : *read) {
    CHECK(is_safe(host.name), "{}", host.name);
    CHECK(host.user.empty() || is_safe(host.user), "{}", host.user);
    CHECK(!host.slots || *host.slots > 0, "{}", *host.slots);
  }
}

}  // namespace
}  // namespace muster::launcher

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::launcher;
  muster::FuzzInput input(data, size);
  const std::string names(input.until('\0'));
  const std::string list(input.until('\0'));
  hold(parse_hostfile(names, "--hostfile"));
  const auto hosts = parse_hosts(names, "--hosts");
  hold(hosts);
  if (!hosts || hosts->size() > 1000) return 0;
  hold(choose_hosts(*hosts, HostNames{"--include", list}, std::nullopt));
  hold(choose_hosts(*hosts, std::nullopt, HostNames{"--exclude", list}));
  return 0;
}
