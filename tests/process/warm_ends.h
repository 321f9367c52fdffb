// Each function and destructor that runs at the end of warm_end_rank adds a line to the file that ENDS names.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void say(const char* what) {
  FILE* const file = std::fopen(std::getenv("ENDS"), "a");
  std::fprintf(file, "%s\n", what);
  std::fclose(file);
}
