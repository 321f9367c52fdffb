// A LibTorch rank that obeys SIGTERM: like probe.cc, but its stamp is the time at which init() returned. A
// template can fork it.
#include <csignal>
#include <muster/comm/job.h>
#include <unistd.h>

#include "bench/recovery/stamp.h"

int main(int argc, char** argv) {
  const muster::Job job = muster::init();
  if (argc < 2 || !muster::bench::open_stamps(argv[1])) return 2;
  muster::bench::stamp_when_told_to_stop();
  if (!muster::bench::stamp('M')) return 1;
  if (muster::bench::is_again()) return 0;
  for (;;) pause();
}
