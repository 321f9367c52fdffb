// libmuster_warm.so: warm starts for the Python runner, which loads it with ctypes. The code is the same as
// in a C++ program, so a forked Python rank is like every other.
#include "runtime/rank/warm/template.h"

// Returns 1 in a forked worker, 0 in a process that is not a template; in a template it does not return.
extern "C" [[gnu::visibility("default")]] int muster_serve_as_template(void (*before)(), void (*in_parent)(),
                                                                       void (*in_child)()) {
  return muster::warm::serve_as_template({before, in_parent, in_child}) ? 1 : 0;
}
