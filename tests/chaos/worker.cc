// A minimal training for chaos: without LibTorch, with exact sums, and with the same result at any number of
// ranks.
//
// In each step the ranks share a batch of samples, add up their sums in the attempt's store, and update the
// state. Checkpoints go to the real directory, committed as docs/checkpoint_layout.md says. Arguments:
// diary.h.
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/store/store_client.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/checkpoint/directory.h"
#include "common/wire/digest.h"
#include "tests/chaos/diary.h"
#include "tests/chaos/samples.h"

namespace muster::chaos {
namespace {

class Training {
 public:
  Training(const std::vector<std::string>& words);
  int run();

 private:
  void restore();
  void load(CheckpointId id, const CheckpointManifest& manifest);
  void step();
  Status save();
  Expected<std::string> write_rank_file(CheckpointId id);
  Status commit(CheckpointId id);
  void remove_old(CheckpointId newest);
  void tell(std::string_view type, std::uint64_t number) const;
  std::string key(std::string_view what, int rank) const {
    return fmt::format("{}/{}/{}", what, step_, rank);
  }

  Diary diary_;
  const int rank_ = diary_.rank();
  const int world_size_ = number<int>(variable("WORLD_SIZE"));
  const Attempt attempt_ = diary_.attempt();
  CheckpointDirectory checkpoints_{variable("MUSTER_CHECKPOINT_DIR")};
  UniqueFd agent_;
  std::optional<bench::StoreClient> store_;
  std::uint64_t step_ = 0;  // steps done so far
  std::array<std::uint64_t, 512> state_{};
};

Training::Training(const std::vector<std::string>& words) : diary_(words) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = variable("MUSTER_SOCKET");
  CHECK(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  agent_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  CHECK(connect(agent_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "{}", path);
}

void Training::tell(std::string_view type, std::uint64_t number) const {
  const nlohmann::json message{{"v", 1},         {"type", type},
                               {"rank", rank_},  {"attempt", attempt_.value()},
                               {"step", number}, {"pid", getpid()}};
  const std::string bytes = message.dump();
  // Like the runtime's: if it fails, training goes on.
  (void)send(agent_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Training::load(CheckpointId id, const CheckpointManifest& manifest) {
  std::string bytes;
  for (const ManifestFile& file : manifest.files) {
    const auto part = read_file(checkpoints_.path_of(id) + "/" + file.name, file.size_bytes);
    CHECK(part && std::vector{digest_of(*part)} == file.chunks, "{} is damaged", file.name);
    bytes += *part;
  }
  CHECK(bytes.size() == sizeof state_, "{} bytes", bytes.size());
  std::memcpy(state_.data(), bytes.data(), bytes.size());
  step_ = id.step;
}

void Training::restore() {
  if (rank_ == 0) {
    const auto found = checkpoints_.resumable();
    CHECK(found.has_value(), "{}", found.error().message());
    store_->set("restore",
                found->empty() ? "" : fmt::format("{} {}", found->front().step, found->front().attempt));
  }
  const std::string word = store_->get("restore");
  if (word.empty()) return;
  const auto parts = split(word, ' ');
  const CheckpointId id{.step = number<std::uint64_t>(parts.at(0)),
                        .attempt = Attempt(number<std::uint64_t>(parts.at(1)))};
  const auto text = read_file(checkpoints_.manifest_path(id), 1 << 20);
  CHECK(text.has_value(), "{}", text.error().message());
  const auto manifest = parse_manifest(*text);
  CHECK(manifest.has_value(), "{}", manifest.error().message());
  load(id, *manifest);
  tell("resumed", step_);
}

void Training::step() {
  const std::vector<std::uint64_t> batch = samples_of_step(step_ + 1);
  std::array<std::uint64_t, 4> sum{};
  std::string mine;
  for (std::size_t i = static_cast<std::size_t>(rank_); i < batch.size();
       i += static_cast<std::size_t>(world_size_)) {
    mine += fmt::format(" {}", batch[i]);
    for (std::size_t j = 0; j < sum.size(); ++j)
      sum[j] += mix(batch[i] * 7 + j + state_[batch[i] % state_.size()]);
  }
  diary_.note("step", step_ + 1, mine);
  ++step_;
  diary_.moment("step", step_);
  store_->set(key("sum", rank_), std::string_view(reinterpret_cast<const char*>(sum.data()), sizeof sum));
  std::array<std::uint64_t, 4> total{};
  for (int rank = 0; rank < world_size_; ++rank) {
    const std::string other = store_->get(key("sum", rank));
    CHECK(other.size() == sizeof sum);
    std::memcpy(sum.data(), other.data(), sizeof sum);
    for (std::size_t j = 0; j < sum.size(); ++j) total[j] += sum[j];
  }
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] = mix(state_[i] + total[i % total.size()] + i);
  tell("step", step_);
  poll(nullptr, 0, diary_.step_ms());  // the work
}

Expected<std::string> Training::write_rank_file(CheckpointId id) {
  if (Status made = make_directories(checkpoints_.path_of(id)); !made) return std::unexpected(made.error());
  const auto cut = [this](int rank) {
    return state_.size() * static_cast<std::size_t>(rank) / static_cast<std::size_t>(world_size_);
  };
  const std::string_view shard(reinterpret_cast<const char*>(state_.data() + cut(rank_)),
                               (cut(rank_ + 1) - cut(rank_)) * sizeof state_[0]);
  const std::string name = fmt::format("rank-{:05}", rank_);
  if (Status written = write_file_durably(checkpoints_.path_of(id) + "/" + name, shard); !written)
    return std::unexpected(written.error());
  return fmt::format("{} {} {}", name, shard.size(), xxh3_digest(shard));
}

// Rank 0: waits for all shards, then writes and renames the manifest.
Status Training::commit(CheckpointId id) {
  CheckpointManifest manifest{
      .id = id, .job = variable("MUSTER_JOB_ID"), .world_size = world_size_, .files = {}};
  std::string missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    const std::string word = store_->get(key("shard", rank));
    const auto parts = split(word, ' ');
    if (parts.size() != 3) {
      missing = word;
    } else {
      const auto digest = parse_digest(parts[2]);  // of the file's one chunk
      CHECK(digest.has_value(), "{} is not a digest", parts[2]);
      manifest.files.push_back({.name = std::string(parts[0]),
                                .size_bytes = number<std::uint64_t>(parts[1]),
                                .chunks = {*digest}});
    }
  }
  if (!missing.empty()) return failure(ErrorCode::kUnavailable, "{}", missing);
  if (Status clear = checkpoints_.check_newest(attempt_); !clear) return clear;
  if (Status written = write_file_durably(checkpoints_.manifest_path(id), encode_manifest(manifest));
      !written)
    return written;
  if (Status synced = sync_directory(checkpoints_.path()); !synced) return synced;
  return checkpoints_.check_newest(attempt_);
}

void Training::remove_old(CheckpointId newest) {
  const auto found = checkpoints_.committed();
  CHECK(found.has_value());
  for (const CheckpointId& id : *found) {
    if (id.step + 2 * diary_.save_every() <= newest.step) (void)checkpoints_.remove(id);
  }
}

Status Training::save() {
  const CheckpointId id{.step = step_, .attempt = attempt_};
  const auto shard = write_rank_file(id);
  diary_.moment("save", step_);
  store_->set(key("shard", rank_), shard ? *shard : "failed:" + shard.error().message());
  if (rank_ == 0) {
    const Status committed = commit(id);
    if (committed) {
      diary_.note("committed", step_);
      tell("committed", step_);
      remove_old(id);
    } else if (!std::filesystem::exists(checkpoints_.manifest_path(id))) {
      (void)checkpoints_.remove(id);
    }
    if (!committed && committed.error().code() == ErrorCode::kFenced) tell("fenced", step_);
    store_->set(key("word", 0), committed ? "" : committed.error().message());
  }
  const std::string word = store_->get(key("word", 0));
  if (word.empty()) return {};
  return failure(ErrorCode::kUnavailable, "cannot save step {}: {}", step_, word);
}

int Training::run() {
  diary_.moment("start", ~std::uint64_t{0});
  store_.emplace(number<std::uint16_t>(variable("MASTER_PORT")));
  restore();
  diary_.note("resume", step_);
  while (step_ < diary_.steps()) {
    step();
    if (step_ % diary_.save_every() != 0 && step_ != diary_.steps()) continue;
    if (const Status saved = save(); !saved) {
      if (rank_ == 0) (void)std::fprintf(stderr, "%s\n", saved.error().message().c_str());
      if (step_ == diary_.steps()) return 1;
    }
  }
  diary_.note(
      "finish", step_,
      " " + xxh3_digest(std::string_view(reinterpret_cast<const char*>(state_.data()), sizeof state_)));
  tell("finished", step_);
  return 0;
}

}  // namespace
}  // namespace muster::chaos

int main(int argc, char** argv) {
  CHECK(argc >= 5, "worker DIRECTORY STEPS SAVE_EVERY STEP_MS [MOMENT...]");
  return muster::chaos::Training({argv + 1, argv + argc}).run();
}
