#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <muster/train/autocast.h>
#include <stdexcept>

namespace muster {

namespace ac = at::autocast;

Autocast::Autocast(at::DeviceType device, const AutocastOptions& options) : device_(device) {
  if (device != at::kCPU && device != at::kCUDA)
    throw std::invalid_argument(
        fmt::format("autocast: the device is {}; it must be cpu or cuda", c10::DeviceTypeName(device, true)));
  enabled_before_ = ac::is_autocast_enabled(device);
  dtype_before_ = ac::get_autocast_dtype(device);
  cache_before_ = ac::is_autocast_cache_enabled();
  const at::ScalarType dtype = options.dtype.value_or(device == at::kCPU ? at::kBFloat16 : at::kHalf);
  if (dtype != at::kBFloat16 && dtype != at::kHalf)
    throw std::invalid_argument(
        fmt::format("autocast: dtype is {}; it must be BFloat16 or Half", c10::toString(dtype)));
  changes_dtype_ = dtype != dtype_before_;
  if (changes_dtype_) ac::clear_cache();  // the cache does not distinguish dtypes
  ac::set_autocast_enabled(device, options.enabled);
  ac::set_autocast_dtype(device, dtype);
  ac::increment_nesting();
  ac::set_autocast_cache_enabled(options.cache_enabled);
}

Autocast::~Autocast() {
  if (ac::decrement_nesting() == 0 || changes_dtype_) ac::clear_cache();
  ac::set_autocast_enabled(device_, enabled_before_);
  ac::set_autocast_dtype(device_, dtype_before_);
  ac::set_autocast_cache_enabled(cache_before_);
}

}  // namespace muster
