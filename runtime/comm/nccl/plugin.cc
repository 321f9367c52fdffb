#include <cstdlib>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "runtime/comm/nccl/backend.h"
#include "runtime/torch_versions.h"

namespace muster {
namespace {

using Nccl = c10d::ProcessGroupNCCL;

class Options : public compat::Options<Nccl::Options> {
 public:
  using compat::Options<Nccl::Options>::Options;

  void set_net_name(const std::string& name) {
    net_name_ = name;
    if (!net_name_.empty()) config.netName = net_name_.c_str();
  }
  c10::intrusive_ptr<c10d::Backend::Options> clone() const override {
    auto copy = c10::make_intrusive<Options>(*this);
    copy->set_net_name(net_name_);
    return copy;
  }

 private:
  std::string net_name_;  // config points to it
};

c10::intrusive_ptr<Options> options_of(const NcclRequest& request) {
  auto options = c10::make_intrusive<Options>(request.options.high_priority_stream);
  if (request.timeout) options->timeout = *request.timeout;
  options->group_name = request.group_name;
  compat::describe_group(*options, request.description);
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  ncclConfig_t& config = options->config;
  if (request.options.blocking) config.blocking = *request.options.blocking ? 1 : 0;
  if (request.options.min_ctas) config.minCTAs = *request.options.min_ctas;
  if (request.options.max_ctas) config.maxCTAs = *request.options.max_ctas;
  options->set_net_name(request.options.net_name);
  return options;
}

// Makes the communicator of the group by splitting the job's communicator. If the job does not have one yet,
// this function first creates it. All ranks of the job have made the same collectives so far. So either all
// of them have the job's communicator, or none of them has it.
c10::intrusive_ptr<c10d::Backend> split_off(const NcclRequest& request) {
  auto& parent = dynamic_cast<Nccl&>(*request.split_from);
  parent.setBoundDeviceId(request.device);
  if (!parent.isInitialized()) parent.eagerConnectSingleDevice(request.device);
  return parent.split(request.store, request.ranks, options_of(request));
}

// When a collective of any rank times out, torch calls write() on every rank to save torch's record of the
// collectives. This class first calls `on_timeout`.
class RecordWriter : public c10d::DebugInfoWriter {
 public:
  RecordWriter(const std::string& file_prefix, int rank, void (*on_timeout)())
      : DebugInfoWriter(file_prefix, rank), on_timeout_(on_timeout) {}
  void write(const std::string& record) override {
    on_timeout_();
    DebugInfoWriter::write(record);
  }

 private:
  void (*on_timeout_)();
};

// torch writes its records to one file for each rank. The path of such a file is the text that this function
// returns, followed by the rank.
std::string record_prefix() {
  for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return "/tmp/nccl_trace_rank_";
}

void write_records_of(const NcclRequest& request) {
  static std::once_flag once;
  std::call_once(once, [&] {
    c10d::DebugInfoWriter::registerWriter(std::make_unique<RecordWriter>(
        record_prefix(), request.ranks[static_cast<std::size_t>(request.rank)], request.on_timeout));
  });
}

}  // namespace
}  // namespace muster

extern "C" [[gnu::visibility("default")]] void muster_make_nccl(muster::NcclRequest* request) {
  if (request->split_from) {
    request->backend = muster::split_off(*request);
    return;
  }
  muster::write_records_of(*request);
  request->backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      request->store, request->rank, static_cast<int>(request->ranks.size()), muster::options_of(*request));
}

extern "C" [[gnu::visibility("default")]] void muster_nccl_record(std::string* record) {
  *record = c10d::dump_nccl_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false);
}

extern "C" [[gnu::visibility("default")]] std::uint64_t muster_module_torch() {
  return muster::compat::kTorchVersion;
}
