// A rank that leaves at once: with the code of the first argument if its RANK is the second, else with 0.
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  const char* rank = std::getenv("RANK");
  if (argc < 3 || rank == nullptr) return 2;
  return std::strcmp(rank, argv[2]) == 0 ? std::atoi(argv[1]) : 0;
}
