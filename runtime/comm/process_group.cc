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
#include "runtime/comm/gloo/backend.h"
#include "runtime/comm/mpi/library.h"
#include "runtime/comm/nccl/backend.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/comm/shm/backend.h"

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
    // Listens here, because torch's server would listen on every interface.
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
      throw std::invalid_argument("backend 'nccl' needs GPUs, but this job trains on CPUs");
    return c10::Device(c10::kCPU);
  }
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (count == 0) {
    if (world.rank == 0)
      log::warning(
          "training on the CPU: a GPU driver is installed, but LibTorch finds no GPU "
          "(to train on CPUs, set CUDA_VISIBLE_DEVICES to nothing)");
    return c10::Device(c10::kCPU);
  }
  if (world.local_rank >= count)
    throw std::invalid_argument(
        fmt::format("LOCAL_RANK={} has no GPU: {} visible on this node (start at most one worker per GPU, "
                    "or set CUDA_VISIBLE_DEVICES to nothing to train on CPUs)",
                    world.local_rank, count));
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
}

namespace {

c10::intrusive_ptr<c10d::Store> prefixed(const GroupSetup& setup, const char* suffix) {
  return c10::make_intrusive<c10d::PrefixStore>(setup.place.prefix + suffix, setup.store);
}

c10::intrusive_ptr<c10d::Backend> gloo_for(const World& world, const GroupSetup& setup) {
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  return make_gloo(prefixed(setup, "/gloo"),
                   {.rank = setup.place.rank,
                    .world_size = setup.place.size(),
                    .timeout = setup.timeout.value_or(kBackendDefaultTimeout),
                    .group_name = setup.place.prefix,
                    .address = address_in(world),
                    .interfaces = interfaces == nullptr ? "" : interfaces,
                    // Connecting all pairs of ranks would take half of the time that 16 ranks need to start.
                    .lazy = world.agent_serves});
}

NcclRequest nccl_request(const GroupSetup& setup) {
  return {.store = prefixed(setup, "/nccl"),
          .rank = setup.place.rank,
          .ranks = setup.place.ranks,
          .device = setup.device,
          .timeout = setup.timeout,
          .group_name = setup.place.prefix,
          .description = setup.place.name,
          .options = setup.place.nccl,
          .split_from = setup.place.split_from,
          .backend = nullptr};
}

c10::intrusive_ptr<c10d::Backend> nccl_for(const GroupSetup& setup) {
  NcclRequest request = nccl_request(setup);
  const auto backend = make_nccl(request);
  watch_nccl({.backend = c10::weak_intrusive_ptr<c10d::Backend>(backend),
              .store = request.store,
              .ranks = request.ranks,
              .place = request.rank,
              .name = request.description});
  return backend;
}

c10::intrusive_ptr<c10d::Backend> mpi_for(const World& world, const GroupSetup& setup) {
  return make_mpi({.store = setup.store,
                   .prefix = setup.place.prefix,
                   .ranks = setup.place.ranks,
                   .rank = world.rank,
                   .world_size = world.world_size,
                   .timeout = setup.timeout.value_or(kBackendDefaultTimeout),
                   .backend = nullptr});
}

c10::intrusive_ptr<c10d::Backend> shm_for(const GroupSetup& setup) {
  return make_shm(prefixed(setup, "/shm"), {.rank = setup.place.rank,
                                            .ranks = setup.place.ranks,
                                            .timeout = setup.timeout.value_or(kBackendDefaultTimeout)});
}

// Creates the backends of the group. setup.place.backend is the name that says which backends it needs.
void add_backends(c10d::ProcessGroup& group, const World& world, const GroupSetup& setup) {
  using Type = c10d::ProcessGroup::BackendType;
  if (setup.place.backend == "mpi") {
    const auto mpi = mpi_for(world, setup);
    group.setDefaultBackend(Type::MPI);
    group.setBackend(c10::kCPU, Type::MPI, mpi);
    if (setup.device.is_cuda()) group.setBackend(c10::kCUDA, Type::MPI, mpi);
    return;
  }
  if (setup.place.backend == "shm") {
    group.setDefaultBackend(Type::CUSTOM);
    group.setBackend(c10::kCPU, Type::CUSTOM, shm_for(setup));
    return;
  }
  group.setDefaultBackend(Type::GLOO);
  group.setBackend(c10::kCPU, Type::GLOO, gloo_for(world, setup));
  if (setup.device.is_cuda() && setup.place.backend != "gloo")
    group.setBackend(c10::kCUDA, Type::NCCL, nccl_for(setup));
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const World& world, const GroupSetup& setup) {
  // From now on, torch::kCUDA means the GPU of this rank.
  if (setup.device.is_cuda()) c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(setup.device);
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(prefixed(setup, ""), setup.place.rank, setup.place.size());
  add_backends(*group, world, setup);
  group->setGroupName(setup.place.prefix);
  group->setGroupDesc(setup.place.name);
  return group;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_for_messages(
    GroupSetup setup, Direction direction, const c10::intrusive_ptr<c10d::Backend>& collectives) {
  const std::string name = direction == Direction::kUp ? "/up" : "/down";
  setup.place.prefix += name;
  setup.place.split_from = nullptr;
  const auto backend = make_nccl(nccl_request(setup));
  watch_messages(backend, collectives);
  return backend;
}

void stay_out_of_split(const GroupSetup& setup) {
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(setup.device);
  NcclRequest request = nccl_request(setup);
  request.store = nullptr;
  make_nccl(std::move(request));
}

}  // namespace muster
