// A rank that leaves work for its end: `warm_end_rank FILE [again]` (tests/process/warm_ends.h). It ends with
// exit code 7; with "again", a library's destructor then calls exit(8).
#include <iostream>

#include "runtime/rank/warm/template.h"
#include "tests/process/warm_ends.h"

extern "C" void use_deep();
extern "C" void use_torch();
extern "C" void use_user();

namespace {

struct Object {
  const char* name;
  ~Object() { say(name); }
};

const Object object{"static object"};

}  // namespace

int main(int argc, char** argv) {
  setenv("ENDS", argv[1], 1);
  muster::warm::serve_as_template();
  if (argc > 2) setenv("AGAIN", "1", 1);
  use_torch();
  use_deep();
  use_user();
  static const Object local{"local static object"};
  std::atexit([] { say("atexit"); });
  std::ios::sync_with_stdio(false);  // so std::cout has a buffer of its own
  std::cout << "cout\n";
  std::printf("printf\n");
  return 7;
}
