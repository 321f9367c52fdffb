#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "runtime/comm/nccl.h"

extern "C" [[gnu::visibility("default")]] void muster_make_nccl(muster::NcclRequest* request) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  if (request->timeout) options->timeout = *request->timeout;
  options->group_name = request->group_name;
  request->backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(request->store, request->rank,
                                                                 request->world_size, options);
}
