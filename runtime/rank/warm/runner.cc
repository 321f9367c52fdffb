// This file is libmuster_warm.so. The Python runner loads it with ctypes to make warm starts possible. The
// code is the same as in a C++ program, so a forked Python rank is like every other.
#include "runtime/rank/warm/template.h"

namespace {

// The vector is never destroyed, because the Python interpreter can ask for arguments until the process ends.
std::vector<std::string>& own_arguments() {
  static auto* const arguments = new std::vector<std::string>;
  return *arguments;
}

}  // namespace

// Returns 0 in a process that is not a template. Returns 1 in a forked worker that has the template's
// arguments, and 2 in a forked worker that has arguments of its own. In a template it does not return.
extern "C" [[gnu::visibility("default")]] int muster_serve_as_template(void (*before)(), void (*in_parent)(),
                                                                       void (*in_child)()) {
  return static_cast<int>(muster::warm::serve_as_template({before, in_parent, in_child}, &own_arguments()));
}

// A worker can have arguments of its own. Returns the argument at place `index`. Place 0 is the first
// argument after the program's name. If there is no argument at this place, returns a null pointer.
extern "C" [[gnu::visibility("default")]] const char* muster_worker_argument(int index) {
  const auto& arguments = own_arguments();
  const auto at = static_cast<std::size_t>(index);
  return at < arguments.size() ? arguments[at].c_str() : nullptr;
}
