#include "runtime/data/loader/device_copy.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <muster/comm/detail/tensors.h>
#include <torch/torch.h>
#include <utility>

namespace muster {

namespace {

class StreamCopier : public DeviceCopier {
 public:
  explicit StreamCopier(at::Device device)
      : functions_(device.type()), stream_(functions_.getStreamFromGlobalPool(device)) {}

  at::Tensor copy(const at::Tensor& tensor) override {
    const c10::StreamGuard guard(stream_);
    return tensor.to(stream_.device(), /*non_blocking=*/true);
  }

  void ready(const std::vector<at::Tensor>& copies) override {
    c10::Event copied(stream_.device_type());
    copied.record(stream_);
    const c10::Stream current = functions_.getStream(stream_.device());
    copied.block(current);
    // The memory of a copy belongs to the stream that copies. The allocator could give it to another batch
    // while the computation still reads it. To prevent this, the stream of the computation is recorded for
    // the memory.
    for (const at::Tensor& copy : copies) {
      for (const at::Tensor& part : detail::dense_parts(copy))
        functions_.recordDataPtrOnStream(part.storage().data_ptr(), current);
    }
  }

 private:
  c10::impl::VirtualGuardImpl functions_;
  c10::Stream stream_;
};

}  // namespace

std::shared_ptr<DeviceCopier> make_device_copier(at::Device device) {
  return std::make_shared<StreamCopier>(device);
}

void DeviceCopy::begin(const std::vector<at::Tensor*>& tensors) {
  sources_.clear();
  copies_.clear();
  for (const at::Tensor* tensor : tensors) {
    sources_.push_back(*tensor);
    copies_.push_back(tensor->defined() ? copier_->copy(*tensor) : *tensor);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) *tensors[i] = copies_[i];
}

void DeviceCopy::finish() {
  copier_->ready(copies_);
  sources_.clear();
  copies_.clear();
}

}  // namespace muster
