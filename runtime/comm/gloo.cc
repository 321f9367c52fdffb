#include "runtime/comm/gloo.h"

#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace muster {

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const GlooSettings& settings) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(settings.timeout);
  options->group_name = settings.group_name;
  std::istringstream interfaces(settings.interfaces);
  for (std::string name; std::getline(interfaces, name, ',');)
    if (!name.empty()) options->devices.push_back(Gloo::createDeviceForInterface(name, settings.lazy));
  if (options->devices.empty())
    options->devices.push_back(settings.address.empty()
                                   ? Gloo::createDefaultDevice(settings.lazy)
                                   : Gloo::createDeviceForHostname(settings.address, settings.lazy));
  // As in torch: one thread runs collectives while another waits for their peers.
  options->threads = 2 * static_cast<int>(options->devices.size());
  return c10::make_intrusive<Gloo>(store, settings.rank, settings.world_size, std::move(options));
}

}  // namespace muster
