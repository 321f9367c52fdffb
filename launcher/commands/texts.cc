// `launch completion`, `launch help` and `launch man`: texts made from the tables of commands and flags.
#include "common/base/version.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/settings/completion.h"
#include "launcher/core/settings/help.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

int completion(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto script = completion_for(arguments->operands.empty() ? "" : arguments->operands.front());
  return script ? print(*script) : refuse(script.error(), kExitUsage);
}

int help(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto text = help_on(arguments->operands.empty() ? "" : arguments->operands.front());
  return text ? print(*text) : refuse(text.error(), kExitUsage);
}

int man(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  return arguments ? print(man_page(kVersion)) : arguments.error();
}

}  // namespace muster::launcher
