#include "runtime/checkpoint/restore.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

// Rank 0's announcements to the other ranks.
enum class Word { kTry, kTryMemory, kLoad, kDone, kNext, kNothing, kFail, kFenced, kMisfit };
std::string encode(Word word, CheckpointId id = {}, const std::string& text = {}) {
  return nlohmann::json{{"word", word}, {"step", id.step}, {"attempt", id.attempt.value()}, {"text", text}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A checkpoint that rank 0 has proposed, as one rank sees it.
//
// Invariants:
// - find() changes only those objects in the state that have save() and load().
// - fill() changes only the tensors that the parts of the state have asked for.
// - finish() is called when all ranks have filled their tensors.
class Candidate {
 public:
  // Finds everything in the checkpoint that `state` needs. It reads only what it needs to decide whether the
  // checkpoint fits the program. fill() reads the rest.
  static Expected<std::unique_ptr<Candidate>> find(const RestorePlan& plan, CheckpointId id, Word where,
                                                   TrainState& state) {
    return without_throwing([&]() -> Expected<std::unique_ptr<Candidate>> {
      auto candidate = std::unique_ptr<Candidate>(new Candidate());
      candidate->from_memory_ = where == Word::kTryMemory;
      auto place = candidate->from_memory_ ? plan.memory->find(id) : on_disk(plan, id);
      if (!place) return std::unexpected(place.error());
      LoadRules rules = plan.rules;
      rules.in_memory = candidate->from_memory_;
      candidate->source_ =
          std::make_shared<LoadedState::Source>(place->first, std::move(place->second), std::move(rules));
      if (Status fits = candidate->check(state); !fits) return std::unexpected(fits.error());
      if (Status there = candidate->source_->check_files(); !there) return std::unexpected(there.error());
      return candidate;
    });
  }

  Status fill(Meeting& meeting) {
    return without_throwing([&] { return source_->fill(&meeting); });
  }
  void finish() {
    for (StatePart* part : found_) part->load();
  }
  Restored restored(CheckpointId id) const {
    return {.id = id,
            .from_memory = from_memory_,
            .missing = source_->missing,
            .left_over = source_->left_over()};
  }

 private:
  static Expected<std::pair<std::string, CheckpointManifest>> on_disk(const RestorePlan& plan,
                                                                      CheckpointId id) {
    auto manifest = read_contents(plan.directory, id);
    if (!manifest) return std::unexpected(manifest.error());
    return std::pair(plan.directory.path_of(id), *std::move(manifest));
  }

  // Checks whether the checkpoint fits the program. If it does not, a part of the state throws one of the
  // exceptions that this function catches. This function does not catch other exceptions, for example if
  // memory runs out, because the next attempt may succeed.
  Status check(TrainState& state) {
    const auto misfit = [] {
      return failure(ErrorCode::kInvalidArgument, "it does not fit this program: {}",
                     current_exception_text());
    };
    LoadedState loaded(source_);
    for (const auto& part : state.parts()) {
      const std::size_t asked = source_->requests.size();
      try {
        loaded.prefix.clear();
        part->check(loaded);
        found_.push_back(part.get());
      } catch (const NotInCheckpoint& absent) {
        if (source_->rules.strict)
          return failure(ErrorCode::kInvalidArgument,
                         "it does not fit this program: {}; to keep the program's values of what it lacks, "
                         "use restore(state, {{.strict = false}})",
                         absent.what());
        source_->missing.emplace_back(absent.what());
        source_->requests.resize(asked);
      } catch (const DamagedCheckpoint& damaged) {
        return std::unexpected(damaged.error);
      } catch (const std::invalid_argument&) {
        return misfit();
      } catch (const nlohmann::json::exception&) {  // another version wrote the value
        return misfit();
      }
    }
    return {};
  }

  std::shared_ptr<LoadedState::Source> source_;
  std::vector<StatePart*> found_;  // the parts that the checkpoint has
  bool from_memory_ = false;
};

// Chooses a checkpoint on rank 0, and tells the other ranks what to do. The other ranks call follow().
//
// Invariant: at all times, rank 0 waits for the other ranks, or they wait for an announcement of rank 0. So
// the last thing that restore() does is always to announce kDone, kNothing, kFail, kFenced or kMisfit.
class Leader {
 public:
  Leader(const RestorePlan& plan, Meeting& meeting, TrainState& state)
      : plan_(plan), meeting_(meeting), state_(state) {}

  Expected<std::optional<Restored>> restore() {
    // Catches all exceptions, because the other ranks wait for an announcement.
    auto result = without_throwing([this]() -> Expected<std::optional<Restored>> {
      if (auto held = choose_from_memory()) return std::optional(*std::move(held));
      auto chosen = choose();
      if (chosen && !*chosen && is_changed_)
        return failure(ErrorCode::kCorrupt, "the checkpoint in memory is damaged, and {} has no checkpoint",
                       plan_.directory.path());
      return chosen;
    });
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
  // Returns the checkpoints on the disk from which this restore can choose, the newest first.
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

  // Uses a checkpoint in memory only in this case: its step is higher than the step of the newest undamaged
  // checkpoint on the disk, and its attempt is not older than that checkpoint's. Otherwise, steps that have
  // already been committed would be lost.
  std::optional<Restored> choose_from_memory() {
    if (plan_.memory == nullptr) return std::nullopt;
    meeting_.give(plan_.memory->tell_held());
    const auto told = meeting_.collect(plan_.patience);
    const auto entries = candidates();
    if (!told || !entries) return std::nullopt;  // choose() meets the same error and returns it
    const auto on_disk = std::ranges::find_if(*entries, [](const auto& entry) { return !entry.damage; });
    for (const CheckpointId& id : MemoryTier::held_by_all(*told)) {
      if (on_disk != entries->end() && (id.step <= on_disk->id.step || id.attempt < on_disk->id.attempt))
        continue;
      if (plan_.only && std::ranges::find(*plan_.only, id.attempt) == plan_.only->end()) continue;
      auto loaded = attempt(id, Word::kTryMemory);
      if (loaded) return *std::move(loaded);
      log::warning("cannot use the checkpoint in memory of {}: {}", name_of(id), loaded.error().message());
    }
    return std::nullopt;
  }

  Expected<std::optional<Restored>> choose() {
    for (std::optional<CheckpointId> newest;;) {
      const auto entries = candidates();
      if (!entries) return std::unexpected(entries.error());
      // If there is now a newer checkpoint, tries again. A training that still runs may have written it, and
      // may have removed those that were tried here.
      const auto before =
          std::exchange(newest, entries->empty() ? std::nullopt : std::optional(entries->front().id));
      if (newest == before) return cannot_choose();
      if (Status readable = check_formats(*entries); !readable) return std::unexpected(readable.error());
      passed_over_ = {};
      misfits_ = true;
      if (auto chosen = first_usable(*entries)) return chosen;
      if (plan_.attempt) return cannot_choose();
    }
  }

  std::optional<Restored> first_usable(const std::vector<CheckpointEntry>& entries) {
    for (const CheckpointEntry& entry : entries) {
      auto loaded = entry.damage ? Expected<Restored>(std::unexpected(*entry.damage)) : attempt(entry.id);
      if (loaded) {
        const auto& groups = passed_over_.groups();
        for (const PassedOver::Group& each : groups)
          log::warning("cannot use the checkpoint of {}: {}", each.names, each.why);
        if (!groups.empty()) log::warning("falling back to the checkpoint of {}", name_of(entry.id));
        return *std::move(loaded);
      }
      passed_over_.add(entry.id, loaded.error().message());
      misfits_ = misfits_ && loaded.error().code() == ErrorCode::kInvalidArgument;
    }
    return std::nullopt;
  }

  // Returns std::nullopt if the directory has no checkpoint. If it has checkpoints but none can be used,
  // returns an error that says why.
  Expected<std::optional<Restored>> cannot_choose() {
    const auto unrecorded = plan_.only ? std::vector<CheckpointId>() : plan_.directory.unrecorded();
    if (!unrecorded) return std::unexpected(unrecorded.error());
    for (const CheckpointId& id : *unrecorded) passed_over_.add(id, kNoAttemptFile);
    misfits_ = misfits_ && unrecorded->empty();
    if (passed_over_.groups().empty()) return std::nullopt;
    return std::unexpected(passed_over_.none_can_be_used(plan_.directory.path(), misfits_));
  }

  // Proposes the checkpoint to the other ranks. Then all ranks load it, or no rank does.
  Expected<Restored> attempt(CheckpointId id, Word where = Word::kTry) {
    auto candidate = Candidate::find(plan_, id, where, state_);
    if (!candidate) return std::unexpected(candidate.error());
    // From here on, the state may have changed, because find() has let the objects with save() and load()
    // take their values.
    is_changed_ = true;
    meeting_.announce(encode(where, id));
    meeting_.give("");
    if (Status agreed = hear_all(); !agreed) return give_up(id, where, agreed);
    meeting_.announce(encode(Word::kLoad, id));
    const Status filled = (*candidate)->fill(meeting_);
    if (filled) meeting_.give("");
    if (!filled) meeting_.give(filled.error().message());
    if (Status agreed = hear_all(); !agreed) return give_up(id, where, filled ? agreed : filled);
    meeting_.announce(encode(Word::kDone, id));
    (*candidate)->finish();
    return (*candidate)->restored(id);
  }

  Status hear_all() {
    const auto words = meeting_.collect(plan_.patience);
    if (!words) return std::unexpected(words.error());
    for (std::size_t rank = 0; rank < words->size(); ++rank) {
      if (!(*words)[rank].empty()) return failure(ErrorCode::kCorrupt, "rank {}: {}", rank, (*words)[rank]);
    }
    return {};
  }

  std::unexpected<Error> give_up(CheckpointId id, Word where, const Status& why) {
    meeting_.announce(encode(Word::kNext, id));
    if (where == Word::kTryMemory) plan_.memory->discard(id);
    return std::unexpected(why.error());
  }

  const RestorePlan& plan_;
  Meeting& meeting_;
  TrainState& state_;
  PassedOver passed_over_;
  bool misfits_ = true;      // all that were passed over are undamaged, but do not fit the program
  bool is_changed_ = false;  // a checkpoint that was tried may have changed the state
};

Expected<std::optional<Restored>> follow(const RestorePlan& plan, Meeting& meeting, TrainState& state) {
  Expected<std::unique_ptr<Candidate>> candidate;
  Word tried = Word::kTry;
  if (plan.memory != nullptr) meeting.give(plan.memory->tell_held());
  for (;;) {
    // Rank 0 may need all of `plan.patience` to read, before it announces anything. So this rank waits twice
    // as long.
    const auto text = meeting.listen(2 * plan.patience);
    if (!text) return std::unexpected(text.error());
    const auto said = nlohmann::json::parse(*text);
    const CheckpointId id{.step = said.at("step"), .attempt = Attempt(said.at("attempt"))};
    const auto reason = [&] { return said.at("text").get<std::string>(); };
    const auto word = said.at("word").get<Word>();
    switch (word) {
      case Word::kTry:
      case Word::kTryMemory:
        candidate = Candidate::find(plan, id, tried = word, state);
        meeting.give(candidate ? "" : candidate.error().message());
        break;
      case Word::kLoad: {
        const Status filled = (*candidate)->fill(meeting);
        meeting.give(filled ? "" : filled.error().message());
        break;
      }
      case Word::kDone: (*candidate)->finish(); return (*candidate)->restored(id);
      case Word::kNext:
        if (tried == Word::kTryMemory) plan.memory->discard(id);
        break;
      case Word::kNothing: return std::nullopt;
      case Word::kFail: return failure(ErrorCode::kCorrupt, "{}", reason());
      case Word::kFenced: return failure(ErrorCode::kFenced, "{}", reason());
      case Word::kMisfit: return failure(ErrorCode::kInvalidArgument, "{}", reason());
    }
  }
}

}  // namespace

Expected<std::optional<Restored>> restore_newest(const RestorePlan& plan, Meeting& meeting,
                                                 TrainState& state) {
  return meeting.rank() == 0 ? Leader(plan, meeting, state).restore() : follow(plan, meeting, state);
}

}  // namespace muster
