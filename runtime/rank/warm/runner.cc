// libmuster_warm.so: warm starts for the Python runner, which loads it with ctypes. The code is the same as
// in a C++ program, so a forked Python rank is like every other.
#include "runtime/rank/warm/template.h"

namespace {

// Never destroyed: the interpreter may ask until its end.
std::vector<std::string>& own_arguments() {
  static auto* const arguments = new std::vector<std::string>;
  return *arguments;
}

}  // namespace

// Returns 0 in a process that is not a template, 1 in a forked worker with the template's arguments, and 2 in
// one with arguments of its own; in a template it does not return.
extern "C" [[gnu::visibility("default")]] int muster_serve_as_template(void (*before)(), void (*in_parent)(),
                                                                       void (*in_child)()) {
  return static_cast<int>(muster::warm::serve_as_template({before, in_parent, in_child}, &own_arguments()));
}

// The worker's own arguments, without the program's name; a null pointer after the last one.
extern "C" [[gnu::visibility("default")]] const char* muster_worker_argument(int index) {
  const auto& arguments = own_arguments();
  const auto at = static_cast<std::size_t>(index);
  return at < arguments.size() ? arguments[at].c_str() : nullptr;
}
