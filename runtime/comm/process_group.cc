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
#include "runtime/comm/mpi/library.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm/shm.h"

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
  if (world.backend == "gloo" || world.backend == "shm") return c10::Device(c10::kCPU);
  if (!nccl_loaded()) {
    if (world.backend == "nccl")
      throw std::invalid_argument("backend 'nccl' needs GPUs, and this job trains on CPUs");
    return c10::Device(c10::kCPU);
  }
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

namespace {

c10::intrusive_ptr<c10d::Store> store_of(const GroupPlace& place,
                                         const c10::intrusive_ptr<c10d::Store>& store, const char* suffix) {
  return c10::make_intrusive<c10d::PrefixStore>(place.prefix + suffix, store);
}

NcclRequest nccl_request(const GroupPlace& place, const c10::intrusive_ptr<c10d::Store>& store,
                         c10::Device device, std::optional<std::chrono::milliseconds> timeout) {
  return {.store = store_of(place, store, "/nccl"),
          .rank = place.rank,
          .ranks = place.ranks,
          .device = device,
          .timeout = timeout,
          .group_name = place.prefix,
          .description = place.name,
          .options = place.nccl,
          .messages = std::nullopt,
          .split_from = place.split_from,
          .backend = nullptr};
}

// This rank's part in making a group.
struct Making {
  const World& world;
  const GroupPlace& place;
  c10::intrusive_ptr<c10d::Store> store;
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;

  c10::intrusive_ptr<c10d::Store> prefixed(const char* suffix) const {
    return store_of(place, store, suffix);
  }
};

c10::intrusive_ptr<c10d::Backend> gloo_for(const Making& making) {
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  return make_gloo(making.prefixed("/gloo"), {.rank = making.place.rank,
                                              .world_size = making.place.size(),
                                              .timeout = making.timeout.value_or(kBackendDefaultTimeout),
                                              .group_name = making.place.prefix,
                                              .address = address_in(making.world),
                                              .interfaces = interfaces == nullptr ? "" : interfaces,
                                              // Of 16 ranks' start, connecting all with all was half.
                                              .lazy = making.world.agent_serves});
}

c10::intrusive_ptr<c10d::Backend> nccl_for(const Making& making) {
  return make_nccl(nccl_request(making.place, making.store, making.device, making.timeout));
}

c10::intrusive_ptr<c10d::Backend> mpi_for(const Making& making) {
  return make_mpi({.store = making.store,
                   .prefix = making.place.prefix,
                   .ranks = making.place.ranks,
                   .rank = making.world.rank,
                   .world_size = making.world.world_size,
                   .timeout = making.timeout.value_or(kBackendDefaultTimeout),
                   .backend = nullptr});
}

c10::intrusive_ptr<c10d::Backend> shm_for(const Making& making) {
  return make_shm(making.prefixed("/shm"), {.rank = making.place.rank,
                                            .ranks = making.place.ranks,
                                            .timeout = making.timeout.value_or(kBackendDefaultTimeout)});
}

// By the name of the place's backend.
void add_backends(c10d::ProcessGroup& group, const Making& making) {
  using Type = c10d::ProcessGroup::BackendType;
  if (making.place.backend == "mpi") {
    const auto mpi = mpi_for(making);
    group.setDefaultBackend(Type::MPI);
    group.setBackend(c10::kCPU, Type::MPI, mpi);
    if (making.device.is_cuda()) group.setBackend(c10::kCUDA, Type::MPI, mpi);
    return;
  }
  if (making.place.backend == "shm") {
    group.setDefaultBackend(Type::CUSTOM);
    group.setBackend(c10::kCPU, Type::CUSTOM, shm_for(making));
    return;
  }
  group.setDefaultBackend(Type::GLOO);
  group.setBackend(c10::kCPU, Type::GLOO, gloo_for(making));
  if (making.device.is_cuda() && making.place.backend != "gloo")
    group.setBackend(c10::kCUDA, Type::NCCL, nccl_for(making));
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const World& world, const GroupPlace& place,
                                                          const c10::intrusive_ptr<c10d::Store>& store,
                                                          c10::Device device,
                                                          std::optional<std::chrono::milliseconds> timeout) {
  // torch::kCUDA is this rank's GPU from now on.
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(device);
  const Making making{world, place, store, device, timeout};
  auto group = c10::make_intrusive<c10d::ProcessGroup>(making.prefixed(""), place.rank, place.size());
  add_backends(*group, making);
  group->setGroupName(place.prefix);
  group->setGroupDesc(place.name);
  return group;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_for_messages(const GroupPlace& place,
                                                         const c10::intrusive_ptr<c10d::Store>& store,
                                                         c10::Device device,
                                                         std::optional<std::chrono::milliseconds> timeout,
                                                         Direction direction) {
  NcclRequest request = nccl_request(place, store, device, timeout);
  request.messages = direction;
  request.split_from = nullptr;
  return make_nccl(std::move(request));
}

void stay_out_of_split(const GroupPlace& place, c10::Device device) {
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(device);
  make_nccl({.store = nullptr,
             .rank = -1,
             .ranks = place.ranks,
             .device = device,
             .timeout = std::nullopt,
             .group_name = place.prefix,
             .description = place.name,
             .options = place.nccl,
             .messages = std::nullopt,
             .split_from = place.split_from,
             .backend = nullptr});
}

}  // namespace muster
