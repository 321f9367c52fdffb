#include "runtime/parallel/comm_hook.h"

namespace muster {
namespace {

// Halves the bytes that are sent. Rounds a bucket to `type`, divides it by the number of ranks, sums it, and
// widens the result into the bucket's memory. Divides before the sum, so that the sum does not overflow.
class CompressHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  CompressHook(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10::ScalarType type)
      : CppCommHookInterface(group), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    at::Tensor gradients = bucket.getBuffer();
    std::vector<at::Tensor> compressed{gradients.to(type_).div_(state_->getSize())};
    const auto widen = [gradients](c10::ivalue::Future& reduced) {
      const c10::IValue value = reduced.value();
      gradients.copy_(value.isTensorList() ? value.toTensorVector().front() : value.toTensor());
      return c10::IValue(gradients);
    };
    return state_->allreduce(compressed)->getFuture()->then(widen, c10::TensorType::get());
  }

 private:
  c10::ScalarType type_;
};

}  // namespace

c10::intrusive_ptr<c10::ivalue::Future> start_mean(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                   const at::Tensor& gradients) {
  std::vector<at::Tensor> list{gradients};
  list[0].div_(group->getSize());
  return group->allreduce(list)->getFuture()->then(
      [gradients](c10::ivalue::Future&) { return c10::IValue(gradients); }, c10::TensorType::get());
}

c10::intrusive_ptr<c10::ivalue::Future> finished(const at::Tensor& gradients) {
  std::vector<c10::Device> devices;
  if (!gradients.is_cpu()) devices.push_back(gradients.device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::move(devices));
  future->markCompleted(c10::IValue(gradients));
  return future;
}

std::unique_ptr<c10d::CommHookInterface> make_comm_hook(CommHook hook,
                                                        const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  switch (hook) {
    case CommHook::kNone: return nullptr;
    case CommHook::kFp16Compress: return std::make_unique<CompressHook>(group, at::kHalf);
    case CommHook::kBf16Compress: return std::make_unique<CompressHook>(group, at::kBFloat16);
  }
  return nullptr;
}

}  // namespace muster
