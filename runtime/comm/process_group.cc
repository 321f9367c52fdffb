#include "runtime/comm/process_group.h"

#include <algorithm>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstdlib>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/cuda.h>

#include "common/base/log.h"
#include "runtime/comm/address.h"
#include "runtime/comm/gloo.h"
#include "runtime/comm/nccl.h"

namespace muster {
namespace {

c10::intrusive_ptr<c10d::Store> open_tcp_store(const World& world, std::chrono::milliseconds timeout,
                                               std::optional<int> listen_fd) {
  c10d::TCPStoreOptions options;
  options.port = world.port;
  options.isServer = world.store == StoreKind::kServe;
  options.waitWorkers = false;
  options.timeout = std::min<std::chrono::milliseconds>(timeout, c10d::Store::kDefaultTimeout);
  options.masterListenFd = listen_fd;
  if (options.isServer && !listen_fd && is_loopback(world.host)) {
    // torch's server would listen on every interface.
    auto listener = listen_on_loopback(world.port);
    if (!listener) throw std::runtime_error(listener.error().message());
    options.masterListenFd = listener->fd.release();
  }
  try {
    return c10::make_intrusive<c10d::TCPStore>(world.host, options);
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("cannot {} the store at {}:{}: {}",
                                         options.isServer ? "serve" : "reach", world.host, world.port,
                                         error.what_without_backtrace()));
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const World& world, std::chrono::milliseconds timeout,
                                           std::optional<int> listen_fd) {
  c10::intrusive_ptr<c10d::Store> store;
  switch (world.store) {
    case StoreKind::kNone: store = c10::make_intrusive<c10d::HashStore>(); break;
    case StoreKind::kFile: store = c10::make_intrusive<c10d::FileStore>(world.path, world.world_size); break;
    case StoreKind::kServe:
    case StoreKind::kConnect: store = open_tcp_store(world, timeout, listen_fd); break;
  }
  store->setTimeout(timeout);
  return c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("muster/attempt-{}.{}", world.attempt, world.restart_count), store);
}

std::string address_in(const World& world) {
  if (world.store == StoreKind::kNone) return "127.0.0.1";
  if (world.store == StoreKind::kFile) return "";
  auto address = address_towards(world.host, world.port);
  if (!address) throw std::runtime_error(address.error().message());
  return *address;
}

c10::Device choose_device(const World& world) {
  if (!nccl_loaded()) return c10::Device(c10::kCPU);
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (count == 0) {
    if (world.rank == 0)
      log::warning(
          "training on the CPU: a GPU's driver is here, but LibTorch finds no GPU (to train on CPUs, set "
          "CUDA_VISIBLE_DEVICES to nothing)");
    return c10::Device(c10::kCPU);
  }
  if (world.local_rank >= count)
    throw std::invalid_argument(
        fmt::format("LOCAL_RANK={} has no GPU: {} visible on this node (start at most one worker per GPU, or "
                    "set CUDA_VISIBLE_DEVICES to nothing to train on CPUs)",
                    world.local_rank, count));
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const World& world, const GroupPlace& place,
                                                          const c10::intrusive_ptr<c10d::Store>& store,
                                                          c10::Device device,
                                                          std::optional<std::chrono::milliseconds> timeout) {
  using Type = c10d::ProcessGroup::BackendType;
  auto prefixed = [&](const std::string& prefix) {
    return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  };
  auto group = c10::make_intrusive<c10d::ProcessGroup>(prefixed(place.prefix), place.rank, place.size);
  group->setDefaultBackend(Type::GLOO);
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  const GlooSettings gloo{.rank = place.rank,
                          .world_size = place.size,
                          .timeout = timeout.value_or(kBackendDefaultTimeout),
                          .group_name = place.prefix,
                          .address = address_in(world),
                          .interfaces = interfaces == nullptr ? "" : interfaces,
                          // Of 16 ranks' start, connecting all with all was half.
                          .lazy = world.agent_serves};
  group->setBackend(c10::kCPU, Type::GLOO, make_gloo(prefixed(place.prefix + "/gloo"), gloo));
  if (device.is_cuda()) {
    c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(device);
    group->setBackend(c10::kCUDA, Type::NCCL,
                      make_nccl({.store = prefixed(place.prefix + "/nccl"),
                                 .rank = place.rank,
                                 .world_size = place.size,
                                 .timeout = timeout,
                                 .group_name = place.prefix,
                                 .backend = nullptr}));
  }
  group->setGroupName(place.prefix);
  return group;
}

}  // namespace muster
