#include "launcher/core/verdict/hints.h"

#include <algorithm>

namespace muster::launcher {

namespace {

constexpr std::string_view kGpuMemoryIsFull =
    "the GPU's memory is full: use a smaller batch or activation checkpointing, "
    "or --env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation";

constexpr std::string_view kPythonOfLaunch =
    "Python does not find the module: is this the right environment? PYTHON_EXEC chooses the interpreter";
constexpr std::string_view kPythonOfCommand =
    "Python does not find the module: is this the right environment? The command names its own Python, "
    "whatever PYTHON_EXEC is: activate the environment, or give the path of its python";

constexpr std::string_view kNoGpuForNccl =
    "NCCL needs a GPU for each rank, and this rank sees none: choose the backend gloo, or a node with GPUs";

constexpr std::string_view kNoSuchGpu =
    "this rank asks for a GPU that is not there: start fewer workers on a node, "
    "let them share GPUs with --share-gpus, or do without with --device cpu";

// More specific patterns come first.
const Hint kHints[] = {
    {{"CUDNN_STATUS_NOT_INITIALIZED"},
     "cuDNN could not start: usually the GPU's memory is full (by another process, "
     "or use a smaller batch); otherwise driver and CUDA version do not match: see nvidia-smi"},
    {{"device-side assert"},
     "a kernel met a bad value, usually an index or label out of range; "
     "the failing line is not the one shown: run with --env CUDA_LAUNCH_BLOCKING=1"},
    {{"CUDA out of memory"}, kGpuMemoryIsFull},
    {{"CUDA error: out of memory"}, kGpuMemoryIsFull},
    {{"CUDA driver error: out of memory"}, kGpuMemoryIsFull},
    {{"Cuda failure", "out of memory"}, kGpuMemoryIsFull},  // NCCL's
    {{"illegal memory access"},
     "a kernel read or wrote outside its memory: run with --env CUDA_LAUNCH_BLOCKING=1, "
     "or under compute-sanitizer"},
    {{"uncorrectable ECC error"}, "the GPU's memory is damaged: remove this node and have it tested"},
    {{"Watchdog caught collective operation timeout"},
     "a rank did not enter this collective: the culprit is the rank that is missing or behind, "
     "not the one that reports the error; look at its stacks"},
    {{"collective operation timeout"},
     "a rank did not enter this collective: look for the rank that is missing or behind, "
     "not the one that reports the error"},
    {{"nccl", "requires at least one CUDA device"}, kNoGpuForNccl},  // torch 2.15
    {{"ProcessGroupNCCL is only supported with GPUs"}, kNoGpuForNccl},
    {{"invalid device ordinal"}, kNoSuchGpu},
    {{"LOCAL_RANK=", "has no GPU"}, kNoSuchGpu},  // the runtime's
    {{"Duplicate GPU detected"},
     "NCCL refuses several ranks on one GPU: start fewer workers on a node, or give --share-gpus"},
    {{"ncclRemoteError"}, "another rank's process or network broke; look for the first failure there"},
    {{"remote process exited or there was a network error"},
     "another rank's process or network broke; look for the first failure there"},
    {{"ncclSystemError"}, "NCCL could not use the network or shared memory: run with --env NCCL_DEBUG=INFO"},
    {{"ncclUnhandledCudaError"},
     "CUDA failed below NCCL: run with --env NCCL_DEBUG=INFO for the first error"},
    {{"_create_c10d_store", "timed out"},
     "no store listens there, because all ranks are clients of the agent's store (with torchrun, too): "
     "leave out init_method=\"tcp://...\" and your own MASTER_ADDR and MASTER_PORT, "
     "or let rank 0 open the store with --store worker"},
    {{"Address already in use"},
     "another process uses this port: end it, or do not choose fixed ports (the launcher sets MASTER_PORT)"},
    {{"unequal numbers of batches"},
     "no rank has died: a rank has trained all its batches while others have more; "
     "train inside model.join(), or give all ranks the same number"},
    {{"Connection closed by peer"}, "the rank at the other end has died; look for the first failure there"},
    {{"Connection reset by peer"}, "the rank at the other end has died; look for the first failure there"},
    {{"No space left on device", "/dev/shm"},
     "shared memory is full: give the container more (--shm-size), or use fewer DataLoader workers"},
    {{"No space left on device"},
     "the disk is full: free space where checkpoints, logs and temporary files go"},
    {{"Bus error", "shm"},
     "shared memory is full: give the container more (--shm-size), or use fewer DataLoader workers"},
    {{"killed by SIGBUS"},
     "usually shared memory is full (give the container more, --shm-size), or a mapped file was truncated"},
    {{"insufficient shared memory"},
     "shared memory is full: give the container more (--shm-size), or use fewer DataLoader workers"},
    {{"ModuleNotFoundError"}, kPythonOfLaunch},
    {{"EOFError: EOF when reading a line"},
     "the rank has no standard input, or has read all of it: "
     "--stdin 0 gives launch's to rank 0 where that is a terminal, too"},
    {{"cannot open shared object file"},
     "a library is not found: set LD_LIBRARY_PATH with --env, or install it on this node"},
    {{"Too many open files"}, "the limit of open files is reached: raise it with `ulimit -n`"},
    {{"Cannot allocate memory"}, "the machine's memory is used up, or this account has reached its limit"},
    {{"Resource temporarily unavailable", "thread"},
     "no more threads can be created: raise `ulimit -u` or pids.max"},
    {{"no kernel image is available"}, "this build of torch does not support this GPU"},
    {{"CUDA driver version is insufficient"},
     "the driver is too old for the CUDA version of torch: update it"},
};

constexpr std::string_view kLostPeer[] = {
    "Connection closed by peer",
    "Connection reset by peer",
    "SO_ERROR: Connection refused",  // Gloo: the peer died before the connection was made
    "ncclRemoteError",
    "remote process exited or there was a network error",
    "NCCL communicator was aborted",
    "recv, got 0 bytes",
    "Broken pipe",
    "has left the group",  // over shared memory
};

constexpr std::string_view kMissedPeer[] = {"Timed out waiting", "does not wait in it",
                                            "collective operation timeout", "has come to the end of its data",
                                            "has ended after"};

bool occurs(std::string_view text, std::string_view pattern) {
  return text.find(pattern) != std::string_view::npos;
}

}  // namespace

std::span<const Hint> hints() {
  return kHints;
}

std::string_view hint_for(std::string_view text, bool chose_python) {
  const auto found = std::ranges::find_if(kHints, [text](const Hint& hint) {
    return std::ranges::all_of(hint.patterns, [text](std::string_view each) { return occurs(text, each); });
  });
  if (found == std::end(kHints)) return {};
  return found->text == kPythonOfLaunch && !chose_python ? kPythonOfCommand : found->text;
}

bool shows_lost_peer(std::string_view text) {
  return std::ranges::any_of(kLostPeer, [text](std::string_view each) { return occurs(text, each); });
}

bool shows_missed_peer(std::string_view text) {
  return shows_lost_peer(text) ||
         std::ranges::any_of(kMissedPeer, [text](std::string_view each) { return occurs(text, each); });
}

bool shows_full_disk(std::string_view text) {
  return occurs(text, "No space left on device") && !occurs(text, "/dev/shm");
}

}  // namespace muster::launcher
