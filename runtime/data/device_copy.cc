#include "runtime/data/device_copy.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

namespace muster {

DeviceCopy::DeviceCopy(at::Device device)
    : device_(device),
      device_functions_(device.type()),
      stream_(device_functions_.getStreamFromGlobalPool(device)) {}

void DeviceCopy::begin(const std::vector<at::Tensor*>& tensors) {
  const c10::StreamGuard guard(stream_);
  for (at::Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    sources_.push_back(*tensor);
    *tensor = tensor->to(device_, /*non_blocking=*/true);
  }
}

void DeviceCopy::finish(const std::vector<at::Tensor*>& tensors) {
  c10::Event copied(device_.type());
  copied.record(stream_);
  const c10::Stream current = device_functions_.getStream(device_);
  copied.block(current);
  // The memory was allocated for the copying stream; it must not be given to another batch while this one
  // computes on it.
  for (const at::Tensor* tensor : tensors) {
    if (tensor->defined()) device_functions_.recordDataPtrOnStream(tensor->storage().data_ptr(), current);
  }
  sources_.clear();
}

}  // namespace muster
