// A plain rank that obeys SIGTERM. Its stamp is the time at which it reached main. The first attempt then
// waits for a signal; later attempts exit at once.
#include <unistd.h>

#include "bench/recovery/stamp.h"

int main(int argc, char** argv) {
  if (argc < 2 || !muster::bench::open_stamps(argv[1])) return 2;
  muster::bench::stamp_when_told_to_stop();
  if (!muster::bench::stamp('M')) return 1;
  if (muster::bench::is_again()) return 0;
  for (;;) pause();
}
