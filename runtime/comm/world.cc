#include "runtime/comm/world.h"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>
#include <limits>
#include <string_view>

namespace muster {
namespace {

// Reads variables of the environment. It keeps the first error, so the caller need not check each variable.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // A variable that is empty counts as not set, as in torch.
  std::string text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? "" : value;
  }

  template <class Number>
  Number number(const char* name, Number fallback, Number lowest, Number highest) {
    const std::string value = text(name);
    if (value.empty()) return fallback;
    Number result{};
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (code != std::errc() || end != value.data() + value.size() || result < lowest || result > highest) {
      fail(fmt::format("{}={} is not a number from {} to {}", name, value, lowest, highest));
      return fallback;
    }
    return result;
  }

  int integer(const char* name, int fallback, int lowest, int highest = std::numeric_limits<int>::max()) {
    return number<int>(name, fallback, lowest, highest);
  }

  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  const Environment& environment_;
  std::string error_;
};

void read_job(Reader& reader, World& world) {
  world.backend = reader.text("MUSTER_BACKEND");
  if (std::string why = refusal_of_backend(world.backend, "MUSTER_BACKEND=" + world.backend); !why.empty())
    reader.fail(std::move(why));
  world.job_id = reader.text("MUSTER_JOB_ID");
  if (world.job_id.empty()) world.job_id = reader.text("TORCHELASTIC_RUN_ID");
  world.attempt =
      reader.number<std::uint64_t>("MUSTER_ATTEMPT", 0, 0, std::numeric_limits<std::uint64_t>::max());
  world.restart_count = reader.integer("TORCHELASTIC_RESTART_COUNT", 0, 0);
  world.checkpoint_dir = reader.text("MUSTER_CHECKPOINT_DIR");
  world.report_socket = reader.text("MUSTER_SOCKET");
  world.trace_file = reader.text("MUSTER_TRACE_FILE");
  const auto step =
      reader.number<std::int64_t>("MUSTER_RESUME_STEP", -1, 0, std::numeric_limits<std::int64_t>::max());
  if (step >= 0) world.resume_step = step;
}

// Reads this rank's place from the environment. If neither LOCAL_RANK nor LOCAL_WORLD_SIZE is set, all ranks
// are on one node.
void read_place(Reader& reader, World& world) {
  const bool one_node = reader.text("LOCAL_RANK").empty() && reader.text("LOCAL_WORLD_SIZE").empty();
  world.local_world_size =
      reader.integer("LOCAL_WORLD_SIZE", one_node ? world.world_size : 1, 1, world.world_size);
  world.local_rank = reader.integer("LOCAL_RANK", one_node ? world.rank : 0, 0, world.world_size - 1);
  if (world.local_rank >= world.local_world_size && !reader.text("LOCAL_WORLD_SIZE").empty())
    reader.fail(fmt::format("LOCAL_RANK={} is not below LOCAL_WORLD_SIZE={}", world.local_rank,
                            world.local_world_size));
  world.place_on_node = reader.integer("MUSTER_LOCAL_RANK", world.local_rank, 0, world.world_size - 1);
  if (world.place_on_node >= world.local_world_size && !reader.text("MUSTER_LOCAL_RANK").empty())
    reader.fail(fmt::format("MUSTER_LOCAL_RANK={} is not below LOCAL_WORLD_SIZE={}", world.place_on_node,
                            world.local_world_size));
  world.node_count = reader.integer("GROUP_WORLD_SIZE", 1, 1);
  world.node_rank = reader.integer("GROUP_RANK", 0, 0, world.node_count - 1);
}

void read_ranks(Reader& reader, World& world) {
  constexpr const char* advice =
      "start the program with launch or torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT";
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (reader.text(name).empty()) reader.fail(fmt::format("{} is not set: {}", name, advice));
  world.world_size = reader.integer("WORLD_SIZE", 1, 1);
  world.rank = reader.integer("RANK", 0, 0);
  if (world.rank >= world.world_size)
    reader.fail(fmt::format("RANK={} is not below WORLD_SIZE={}", world.rank, world.world_size));
  world.host = reader.text("MASTER_ADDR");
  world.port = static_cast<std::uint16_t>(reader.integer("MASTER_PORT", 0, 1, 65535));
  world.agent_serves = reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  world.store = world.agent_serves || world.rank != 0 ? StoreKind::kConnect : StoreKind::kServe;
}

void read_tcp(std::string_view address, Reader& reader, World& world) {
  const std::size_t colon = address.rfind(':');
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  unsigned port = 0;
  const char* const end = address.data() + address.size();
  const bool number =
      colon != std::string_view::npos && std::from_chars(address.data() + colon + 1, end, port).ptr == end;
  if (host.empty() || !number || port == 0 || port > 65535)
    reader.fail(fmt::format("init_method tcp://{} is not tcp://host:port", address));
  world.host = host;
  world.port = static_cast<std::uint16_t>(port);
  world.store = world.rank == 0 ? StoreKind::kServe : StoreKind::kConnect;
}

// `world` already has rank and world_size.
void read_options(const std::string& init_method, Reader& reader, World& world) {
  if (world.world_size < 1 || world.rank < 0 || world.rank >= world.world_size)
    reader.fail(fmt::format(
        "init_method {} needs rank and world_size with 0 <= rank < world_size; they are {} and {}",
        init_method, world.rank, world.world_size));
  if (init_method.starts_with("tcp://")) {
    read_tcp(std::string_view(init_method).substr(6), reader, world);
  } else if (init_method.starts_with("file:///")) {
    world.path = init_method.substr(7);
    world.store = StoreKind::kFile;
  } else {
    reader.fail(
        fmt::format("init_method '{}' is not one of env://, tcp://host:port, file:///path", init_method));
  }
}

}  // namespace

std::string refusal_of_backend(std::string_view name, std::string_view what) {
  if (name.empty() || std::ranges::find(kBackends, name) != std::end(kBackends)) return {};
  return fmt::format("{} is not one of {}", what, fmt::join(kBackends, ", "));
}

Expected<World> read_world(const std::string& init_method, int rank, int world_size,
                           const Environment& environment) {
  Reader reader(environment);
  World world;
  read_job(reader, world);
  if (init_method != "env://") {
    world.rank = rank;
    world.world_size = world_size;
    read_options(init_method, reader, world);
    if (reader.error().empty()) read_place(reader, world);
  } else if (!reader.text("RANK").empty() || !reader.text("WORLD_SIZE").empty()) {
    read_ranks(reader, world);
    if (reader.error().empty()) read_place(reader, world);
  }
  if (!reader.error().empty()) return failure(ErrorCode::kInvalidArgument, "{}", reader.error());
  return world;
}

}  // namespace muster
