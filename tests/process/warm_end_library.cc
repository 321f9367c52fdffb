// A shared library of warm_end_rank. NAME is its name, and OPENS_FILE makes it leave a file open.
#include <fstream>
#include <iostream>  // so the library has a share in the standard streams, as LibTorch has
#include <string>

#include "tests/process/warm_ends.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define JOINED_OF(a, b) a##b
#define JOINED(a, b) JOINED_OF(a, b)

extern "C" void use_deep();

namespace {

struct Object {
  ~Object() {
    say(TEXT(NAME) ": static object");
#ifdef OPENS_FILE
    if (std::getenv("AGAIN") != nullptr) std::exit(8);
#endif
  }
};

const Object object;
std::ofstream file;

[[gnu::destructor]] void end() {
  say(TEXT(NAME) ": function");
}

}  // namespace

extern "C" void JOINED(use_, NAME)() {
#ifdef OPENS_FILE
  use_deep();
  file.open(std::getenv("ENDS") + std::string(".library"));
  file << "not flushed";
#endif
}
