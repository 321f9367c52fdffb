// A plain rank that obeys TERM: its stamp says when it came to main. The first attempt then waits for its
// end, later ones are done at once.
#include <unistd.h>

#include "bench/recovery/stamp.h"

int main(int argc, char** argv) {
  if (argc < 2 || !muster::bench::open_stamps(argv[1])) return 2;
  muster::bench::stamp_when_told_to_stop();
  if (!muster::bench::stamp('M')) return 1;
  if (muster::bench::is_again()) return 0;
  for (;;) pause();
}
