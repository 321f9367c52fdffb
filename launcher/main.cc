// The main function of launch. It finds the command that the user means, and executes it.
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {
namespace {

using Execute = int (*)(const Invocation&);

constexpr std::pair<std::string_view, Execute> kExecutes[] = {
    {"run", run},
    {"plan", plan},
    {"check", check},
    {"ps", ps},
    {"status", status},
    {"top", top},
    {"nodes", nodes},
    {"logs", logs},
    {"cancel", cancel},
    {"dump", dump},
    {"report", report},
    {"replay", replay},
    {"trace", trace},
    {"schedule", schedule},
    {"ckpt", ckpt},
    {"clean", clean},
    {"sweep", sweep_command},
    {"completion", completion},
    {"help", help},
    {"man", man},
};

int main(std::vector<std::string> words) {
  open_standard_streams();
  keep_freed_memory();
  log::set_up("launch", log::Level::kWarning);
  const Command* command = words.empty() ? nullptr : find_command(words.front());
  const bool implied = command == nullptr;
  if (!implied) {
    words.erase(words.begin());
  } else {
    command = find_command("run");
  }
  for (const auto& [name, execute] : kExecutes) {
    if (name == command->name) return execute({*command, std::move(words), look_around(), implied});
  }
  CHECK(false, "no function executes {}", command->name);
}

}  // namespace
}  // namespace muster::launcher

int main(int argc, char** argv) {
  using namespace muster;
  try {
    return launcher::main({argv + 1, argv + argc});
  } catch (const std::exception& error) {  // from a library: no thread or no memory was available
    return launcher::refuse(Error(ErrorCode::kInternal, error.what()), launcher::kExitInternal);
  }
}
