#include "runtime/checkpoint/restore.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "runtime/checkpoint/content.h"
#include "runtime/checkpoint/state_part.h"
#include "runtime/control/uncaught.h"

namespace muster {

namespace {

// For one rank to read and verify a whole checkpoint.
constexpr auto kReadTimeout = std::chrono::minutes(30);

// What rank 0 says to all.
enum class Word { kTry, kLoad, kNext, kNothing, kFail, kFenced, kMisfit };
std::string encode(Word word, CheckpointId id = {}, const std::string& text = {}) {
  return nlohmann::json{{"word", word}, {"step", id.step}, {"attempt", id.attempt.value()}, {"text", text}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string name_of(CheckpointId id) {
  return fmt::format("step {} of attempt {}", id.step, id.attempt);
}

// Only where a part says so: whatever else its check meets, such as too little memory, may pass.
Status check_fits(const LoadedState& loaded, const TrainState& state) {
  const auto misfit = [] {
    return failure(ErrorCode::kInvalidArgument, "it does not fit this program: {}", current_exception_text());
  };
  try {
    for (const auto& part : state.parts()) part->check(loaded);
    return {};
  } catch (const std::invalid_argument&) {
    return misfit();
  } catch (const nlohmann::json::exception&) {  // of another version
    return misfit();
  }
}

Expected<LoadedState> read_and_check(const RestorePlan& plan, CheckpointId id, int rank, TrainState& state) {
  return without_throwing([&] {
    auto loaded = read_checkpoint(plan.directory, id, rank);
    if (!loaded) return loaded;
    if (Status fits = check_fits(*loaded, state); !fits) loaded = std::unexpected(std::move(fits).error());
    return loaded;
  });
}

void load(const LoadedState& loaded, TrainState& state) {
  for (const auto& part : state.parts()) part->load(loaded);
}

class Leader {
 public:
  Leader(const RestorePlan& plan, Meeting& meeting, TrainState& state)
      : plan_(plan), meeting_(meeting), state_(state) {}

  Expected<std::optional<CheckpointId>> restore() {
    // The others wait for a word, whatever happens here.
    auto result = without_throwing([this] { return choose(); });
    if (!result) {
      const ErrorCode code = result.error().code();
      const Word word = code == ErrorCode::kFenced            ? Word::kFenced
                        : code == ErrorCode::kInvalidArgument ? Word::kMisfit
                                                              : Word::kFail;
      meeting_.announce(encode(word, {}, result.error().message()));
    } else if (!*result) {
      meeting_.announce(encode(Word::kNothing));
    }
    return result;
  }

 private:
  // That count, newest first.
  Expected<std::vector<CheckpointEntry>> candidates() {
    if (plan_.attempt) {
      if (Status clear = plan_.directory.check_newest(*plan_.attempt); !clear)
        return std::unexpected(clear.error());
    }
    auto entries = plan_.directory.candidates(plan_.attempt);
    if (entries && plan_.only)
      std::erase_if(*entries, [this](const CheckpointEntry& entry) {
        return std::ranges::find(*plan_.only, entry.id.attempt) == plan_.only->end();
      });
    return entries;
  }

  Expected<std::optional<CheckpointId>> choose() {
    for (std::optional<CheckpointId> newest;;) {
      const auto entries = candidates();
      if (!entries) return std::unexpected(entries.error());
      // A training beside us may have written a newer one, and removed those that we wanted.
      const auto before =
          std::exchange(newest, entries->empty() ? std::nullopt : std::optional(entries->front().id));
      if (newest == before) return cannot_choose();
      passed_over_.clear();
      misfits_ = true;
      if (const auto chosen = first_usable(*entries)) return chosen;
      if (plan_.attempt) return cannot_choose();
    }
  }

  std::optional<CheckpointId> first_usable(const std::vector<CheckpointEntry>& entries) {
    for (const CheckpointEntry& entry : entries) {
      const Status loaded = entry.damage ? Status(std::unexpected(*entry.damage)) : attempt(entry.id);
      if (loaded) {
        for (const PassedOver& each : passed_over_)
          log::warning("cannot use the checkpoint of {}: {}", each.names, each.why);
        if (!passed_over_.empty()) log::warning("falling back to the checkpoint of {}", name_of(entry.id));
        return entry.id;
      }
      pass_over(entry.id, loaded.error().message());
      misfits_ = misfits_ && loaded.error().code() == ErrorCode::kInvalidArgument;
    }
    return std::nullopt;
  }

  // Nothing, or why, if there is something.
  Expected<std::optional<CheckpointId>> cannot_choose() {
    const auto unrecorded = plan_.only ? std::vector<CheckpointId>() : plan_.directory.unrecorded();
    if (!unrecorded) return std::unexpected(unrecorded.error());
    for (const CheckpointId& id : *unrecorded) pass_over(id, "its attempt file is missing");
    misfits_ = misfits_ && unrecorded->empty();
    if (passed_over_.empty()) return std::nullopt;
    std::string tried;
    for (const PassedOver& each : passed_over_)
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : "; ", each.names, each.why);
    return failure(
        misfits_ ? ErrorCode::kInvalidArgument : ErrorCode::kCorrupt,
        "{} has checkpoints and none can be used; {}name another directory to start anew. Tried: {}",
        plan_.directory.path(), misfits_ ? "go on with the program and the options that saved them, or " : "",
        tried);
  }

  // Those with the same reason are told together.
  void pass_over(CheckpointId id, const std::string& why) {
    if (!passed_over_.empty() && passed_over_.back().why == why) {
      passed_over_.back().names += ", " + name_of(id);
    } else {
      passed_over_.push_back({name_of(id), why});
    }
  }

  // All ranks load it, or none does.
  Status attempt(CheckpointId id) {
    const auto loaded = read_and_check(plan_, id, 0, state_);
    if (!loaded) return std::unexpected(loaded.error());
    meeting_.announce(encode(Word::kTry, id));
    meeting_.give("");
    const auto words = meeting_.collect(kReadTimeout);
    Status agreed = words ? Status() : Status(std::unexpected(words.error()));
    for (std::size_t rank = 0; words && rank < words->size(); ++rank) {
      if (!(*words)[rank].empty()) agreed = failure(ErrorCode::kCorrupt, "rank {}: {}", rank, (*words)[rank]);
    }
    meeting_.announce(encode(agreed ? Word::kLoad : Word::kNext, id));
    if (agreed) load(*loaded, state_);
    return agreed;
  }

  const RestorePlan& plan_;
  Meeting& meeting_;
  TrainState& state_;
  struct PassedOver {
    std::string names;
    std::string why;
  };
  std::vector<PassedOver> passed_over_;
  bool misfits_ = true;  // all of them, and nothing is wrong with the files
};

Expected<std::optional<CheckpointId>> follow(const RestorePlan& plan, Meeting& meeting, TrainState& state) {
  Expected<LoadedState> loaded = LoadedState();
  for (;;) {
    // Rank 0 reads and verifies before it speaks.
    const auto text = meeting.listen(2 * kReadTimeout);
    if (!text) return std::unexpected(text.error());
    const auto said = nlohmann::json::parse(*text);
    const CheckpointId id{.step = said.at("step"), .attempt = Attempt(said.at("attempt"))};
    switch (said.at("word").get<Word>()) {
      case Word::kTry:
        loaded = read_and_check(plan, id, meeting.rank(), state);
        meeting.give(loaded ? "" : loaded.error().message());
        break;
      case Word::kLoad: load(*loaded, state); return id;
      case Word::kNext: break;
      case Word::kNothing: return std::nullopt;
      case Word::kFail: return failure(ErrorCode::kCorrupt, "{}", said.at("text").get<std::string>());
      case Word::kFenced: return failure(ErrorCode::kFenced, "{}", said.at("text").get<std::string>());
      case Word::kMisfit:
        return failure(ErrorCode::kInvalidArgument, "{}", said.at("text").get<std::string>());
    }
  }
}

}  // namespace

Expected<std::optional<CheckpointId>> restore_newest(const RestorePlan& plan, Meeting& meeting,
                                                     TrainState& state) {
  return meeting.rank() == 0 ? Leader(plan, meeting, state).restore() : follow(plan, meeting, state);
}

}  // namespace muster
