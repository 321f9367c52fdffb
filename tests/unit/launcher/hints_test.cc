#include "launcher/core/verdict/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using testing::HasSubstr;

struct Case {
  const char* text;
  const char* hint;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.text;
}
class Hints : public testing::TestWithParam<Case> {};

TEST_P(Hints, SayWhatToDo) {
  EXPECT_THAT(std::string(hint_for(GetParam().text, true)), HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(
    Table, Hints,
    testing::Values(
        Case{"RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "smaller batch"},
        Case{"CUDA error: device-side assert triggered", "CUDA_LAUNCH_BLOCKING=1"},
        Case{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "expandable_segments"},
        Case{"torch.AcceleratorError: CUDA error: out of memory", "expandable_segments"},
        Case{"ncclUnhandledCudaError: "
             "Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
             "expandable_segments"},
        Case{"[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)",
             "missing or behind"},
        Case{"RuntimeError: nccl2 requires at least one CUDA device", "gloo"},
        Case{"ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "gloo"},
        Case{"torch.distributed.DistBackendError: NCCL error ... ncclRemoteError: A call failed",
             "first failure"},
        Case{
            "    store = _create_c10d_store(\ntorch.distributed.DistNetworkError: The client socket has timed out after "
            "5000ms while trying to connect to (127.0.0.1, 29555).",
            "--store worker"},
        Case{"[enforce fail] bind: Address already in use", "another process uses this port"},
        Case{"[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5", "first failure"},
        Case{"Connection closed by peer [::1]:5 (...; rank 0 has ended after 5; "
             "unequal numbers of batches need DistributedDataParallel::join)",
             "no rank has died"},
        Case{"write: No space left on device", "disk is full"},
        Case{"RuntimeError: unable to write to file </torch_1>: No space left on device (28) /dev/shm",
             "--shm-size"},
        Case{"ModuleNotFoundError: No module named 'torch'", "PYTHON_EXEC"},
        Case{"error while loading shared libraries: libtorch.so: cannot open shared object file",
             "LD_LIBRARY_PATH"},
        Case{"DataLoader worker (pid 7) is killed by signal: Bus error. out of shared memory (shm)",
             "--shm-size"},
        Case{"was killed by SIGBUS", "shm-size"}));

TEST(HintTable, KnowsWhoChoseThePython) {
  constexpr const char* kText = "ModuleNotFoundError: No module named 'torch'";
  EXPECT_THAT(std::string(hint_for(kText, true)), HasSubstr("PYTHON_EXEC chooses"));
  EXPECT_THAT(std::string(hint_for(kText, false)), HasSubstr("The command names its own Python"));
}

TEST(HintTable, HasAHintForEachPatternAndNoneForTheRest) {
  for (const Hint& hint : hints()) {
    EXPECT_FALSE(hint.patterns.empty());
    EXPECT_FALSE(hint.text.empty());
    EXPECT_EQ(hint.text.find('\n'), std::string_view::npos) << hint.text;
    std::string text;
    for (const std::string_view pattern : hint.patterns) text += std::string(pattern) + " ";
    EXPECT_FALSE(hint_for(text, false).empty()) << text;
  }
  EXPECT_EQ(hint_for("ValueError: no", true), "");
  EXPECT_EQ(hint_for("using CUDA:0\nthe loader ran out of memory: out of memory", true), "");
}

TEST(HintTable, TellsALostPeerFromTheRanksOwnFault) {
  EXPECT_TRUE(shows_lost_peer("... Connection closed by peer [10.0.0.1]:4711"));
  EXPECT_TRUE(shows_lost_peer("failed to recv, got 0 bytes"));
  EXPECT_TRUE(
      shows_lost_peer("gloo::IoException: pair.cc:152] timed out connecting: SO_ERROR: Connection refused, "
                      "remote=[127.0.0.1]:53655"));
  EXPECT_FALSE(shows_lost_peer("requests.exceptions.ConnectionError: [Errno 111] Connection refused"));
  EXPECT_FALSE(shows_lost_peer("Watchdog caught collective operation timeout"));
  EXPECT_FALSE(shows_lost_peer("ValueError: no"));
}

}  // namespace
}  // namespace muster::launcher
