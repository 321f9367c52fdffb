#include "runtime/checkpoint/save_agreement.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "common/wire/digest.h"
#include "runtime/checkpoint/commit.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

using Kind = SavedState::Kind;
using nlohmann::json;

constexpr std::int64_t kComparedBytes = 1 << 20;  // how much of the tensors is compared at each save
constexpr std::size_t kDigestDigits = 32;

// A rank gives rank 0 a word, that is, a text, about its state. The word has these parts:
// - kDigests;
// - kKnows if the rank has kept its share from an earlier save, in which the state had the same structure
//   (names, types and shapes). Otherwise kAsks;
// - the digest of the structure;
// - for each Alike, its key and its digest.
//
// If the rank has failed, its word begins with a letter instead.
constexpr char kDigests = '=';
constexpr char kKnows = '+';
constexpr char kAsks = '-';
constexpr std::size_t kBeforeStructure = 2;

// Some of the words that rank 0 announces.
constexpr std::string_view kSame = "same";        // each rank writes what it wrote at the previous save
constexpr std::string_view kExplain = "explain";  // send the digests of all that is compared, by name
constexpr std::string_view kLists = "lists";      // send the names of all that you have

template <class Number>
void add_number(Digest& digest, Number number) {
  digest.add({reinterpret_cast<const char*>(&number), sizeof number});
}
void add_numbers(Digest& digest, at::IntArrayRef numbers) {
  add_number(digest, numbers.size());
  for (const std::int64_t number : numbers) add_number(digest, number);
}
void add_text(Digest& digest, std::string_view text) {
  add_number(digest, text.size());
  digest.add(text);
}

std::string structure_of(const SavedState& state) {
  Digest digest;
  for (const auto& [key, tensor] : state.tensors) {
    add_text(digest, key.second);
    add_number(digest, tensor.kind);
    add_number(digest, tensor.tensor.scalar_type());
    add_numbers(digest, tensor.tensor.sizes());
    add_numbers(digest, tensor.slice.shape);
    add_numbers(digest, tensor.slice.offsets);
  }
  for (const auto& [key, value] : state.values) {
    add_text(digest, key.second);
    add_number(digest, value.kind);
  }
  return digest.text();
}

// Some values, or some elements of tensors, that must be equal on all ranks that have them. `key` is a digest
// of their names. Ranks with the same key compare their digests.
struct Alike {
  std::string key;
  std::vector<std::pair<std::string, std::string>> digests;  // by name
  std::string digest() const {
    Digest all;
    for (const auto& [name, digest] : digests) all.add(digest);
    return all.text();
  }
};

Alike alike_values(const SavedState& state) {
  Alike alike;
  Digest names;
  for (const auto& [key, value] : state.values) {
    if (value.kind != Kind::kShared) continue;
    add_text(names, key.second);
    alike.digests.emplace_back(key.second, xxh3_digest(value.text));
  }
  alike.key = names.text();
  return alike;
}

// Returns digests of some elements of the shared tensors. If `whole` is true, these are the shared tensors
// that are saved as a whole. Otherwise they are the shared tensors that are saved in slices. The elements
// differ from save to save.
Alike alike_tensors(const SavedState& state, std::uint64_t save_count, bool whole) {
  Alike alike;
  Digest names;
  std::vector<const std::pair<const SavedState::Key, SavedState::Tensor>*> shared;
  for (const auto& entry : state.tensors) {
    const SavedState::Tensor& saved = entry.second;
    if (saved.kind != Kind::kShared || !saved.tensor.is_contiguous() || saved.tensor.numel() == 0 ||
        (saved.tensor.sizes() == saved.slice.shape) != whole)
      continue;
    add_text(names, entry.first.second);
    add_number(names, saved.tensor.scalar_type());
    add_numbers(names, saved.tensor.sizes());
    add_numbers(names, saved.slice.shape);
    add_numbers(names, saved.slice.offsets);
    shared.push_back(&entry);
  }
  alike.key = names.text();
  std::int64_t left = kComparedBytes;
  for (std::size_t i = 0; i < shared.size() && left > 0; ++i) {
    const auto& [key, saved] = *shared[(save_count + i) % shared.size()];
    const auto element = static_cast<std::int64_t>(saved.tensor.element_size());
    const std::int64_t count = std::min(saved.tensor.numel(), std::max<std::int64_t>(left / element, 1));
    const auto turns = static_cast<std::uint64_t>((saved.tensor.numel() + count - 1) / count);
    const auto turn = static_cast<std::int64_t>(save_count / shared.size() % turns);
    const std::int64_t begin = std::min(turn * count, saved.tensor.numel() - count);
    const at::Tensor some = saved.tensor.detach().view(-1).slice(0, begin, begin + count).cpu();
    alike.digests.emplace_back(key.second,
                               xxh3_digest({static_cast<const char*>(some.const_data_ptr()), some.nbytes()}));
    left -= count * element;
  }
  return alike;
}

std::vector<Alike> alike_of(const SavedState& state, std::uint64_t save_count) {
  return {alike_values(state), alike_tensors(state, save_count, /*whole=*/true),
          alike_tensors(state, save_count, /*whole=*/false)};
}

std::string names_of(const SavedState& state) {
  json tensors = json::array();
  for (const auto& [key, tensor] : state.tensors)
    if (tensor.kind != Kind::kOwn)
      tensors.push_back({key.second, tensor.kind == Kind::kShared, tensor.tensor.nbytes(),
                         tensor.slice.offsets, tensor.tensor.sizes().vec()});
  json values = json::array();
  for (const auto& [key, value] : state.values)
    if (value.kind != Kind::kOwn) values.push_back(key.second);
  return json{{"tensors", tensors}, {"values", values}}.dump();
}

std::string digests_of(const SavedState& state, std::uint64_t save_count) {
  json digests = json::object();
  for (const Alike& alike : alike_of(state, save_count))
    for (const auto& [name, digest] : alike.digests) digests[alike.key][name] = digest;
  return digests.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Computes which part of the state `rank` writes. All ranks compute the division in the same way:
// - The shared tensors and slices are assigned one by one, the largest first. Each goes to one of the ranks
//   that have it: to the one that has the least to write so far.
// - Everything else goes to the lowest rank that has it.
SaveAgreement::Share share_of(int rank, const json& said, SaveAgreement::Writers writers) {
  struct Item {
    std::uint64_t size_bytes = 0;
    bool shared = false;
    std::vector<int> ranks;  // the ranks that have it
  };
  const auto& of = said.at("of");  // for each rank, the number of its list
  const auto& lists = said.at("lists");
  std::vector<std::vector<int>> ranks_of(lists.size());
  for (std::size_t each = 0; each < of.size(); ++each) {
    const int place = static_cast<int>(each) - writers.first;
    if (place >= 0 && place < writers.count)
      ranks_of[of[each].get<std::size_t>()].push_back(static_cast<int>(each));
  }
  std::map<std::pair<std::string, std::string>, Item> items;  // by name and slice
  std::map<std::string, int> values;                          // by name: the lowest rank that has it
  for (std::size_t list = 0; list < lists.size(); ++list) {
    if (ranks_of[list].empty()) continue;
    for (const auto& tensor : lists[list].at("tensors")) {
      const bool shared = tensor.at(1);
      Item& item = items[{tensor.at(0), shared ? tensor.at(3).dump() + tensor.at(4).dump() : ""}];
      item.size_bytes = std::max(item.size_bytes, tensor.at(2).get<std::uint64_t>());
      item.shared = shared;
      item.ranks.insert(item.ranks.end(), ranks_of[list].begin(), ranks_of[list].end());
    }
    for (const auto& value : lists[list].at("values")) {
      const auto [found, added] = values.emplace(value, ranks_of[list].front());
      if (!added) found->second = std::min(found->second, ranks_of[list].front());
    }
  }
  std::vector<std::pair<const std::string*, Item*>> by_size;
  for (auto& [key, item] : items) by_size.emplace_back(&key.first, &item);
  std::ranges::stable_sort(by_size, std::greater(), [](const auto& each) { return each.second->size_bytes; });
  std::vector<std::uint64_t> bytes(of.size());
  SaveAgreement::Share share;
  for (const auto& [name, item] : by_size) {
    const auto least = [&](int one) {
      return std::pair(item->shared ? bytes[static_cast<std::size_t>(one)] : 0, one);
    };
    const int writer = *std::ranges::min_element(item->ranks, {}, least);
    bytes[static_cast<std::size_t>(writer)] += item->size_bytes;
    if (writer == rank) share.tensors.insert(*name);
  }
  for (const auto& [name, writer] : values)
    if (writer == rank) share.values.insert(name);
  return share;
}

}  // namespace

std::string SaveAgreement::word_of(const SavedState& state) {
  const std::string structure = structure_of(state);
  const bool knows = share_ && share_->structure == structure;
  std::string word = {kDigests, knows ? kKnows : kAsks};
  word += structure;
  if (check_replicas_)
    for (const Alike& alike : alike_of(state, save_count_)) word += alike.key + alike.digest();
  return word;
}

Expected<SaveAgreement::Share> SaveAgreement::agree(Meeting& meeting, const Expected<SavedState>& state) {
  ++save_count_;
  const auto word = without_throwing([&]() -> Expected<std::string> {
    if (!state) return std::unexpected(state.error());
    return word_of(*state);
  });
  const std::string mine = word ? *word : muster::word_of(std::unexpected(word.error()));
  meeting.give(mine);
  auto said =
      without_throwing([&] { return meeting.rank() == 0 ? lead(meeting, state) : follow(meeting, state); });
  if (!said && said.error().code() == ErrorCode::kInternal && meeting.rank() == 0)
    meeting.announce(muster::word_of(std::unexpected(said.error())));  // the others wait for it
  if (!said) {
    share_.reset();
    structures_.clear();
    return std::unexpected(said.error());
  }
  if (*said != kSame) {
    share_ = share_of(meeting.rank(), json::parse(*said), writers_);
    share_->structure = mine.substr(kBeforeStructure, kDigestDigits);
  }
  if (!share_) return failure(ErrorCode::kInternal, "no rank has said what this rank has to write");
  return *share_;
}

// Rank 0's part of agree(). Returns the text that rank 0 has announced last, or the error that it has
// announced.
Expected<std::string> SaveAgreement::lead(Meeting& meeting, const Expected<SavedState>& state) {
  const auto end = [&](const Status& why) {
    const std::string word = muster::word_of(why);
    meeting.announce(word);
    return std::unexpected(status_of(word).error());  // as the others hear it
  };
  const auto words = meeting.collect(timeout_);
  if (!words) return end(std::unexpected(words.error()));
  std::vector<std::string> structures;
  std::map<std::string_view, std::pair<std::size_t, std::string_view>> first_of;  // by key: rank and digest
  std::optional<std::pair<std::size_t, std::size_t>> different;
  bool all_know = true;
  for (std::size_t rank = 0; rank < words->size(); ++rank) {
    const std::string& word = (*words)[rank];
    if (!word.starts_with(kDigests))
      return end(failure_within(fmt::format("rank {}", rank), status_of(word)));
    all_know = all_know && word[1] == kKnows;
    structures.push_back(word.substr(kBeforeStructure, kDigestDigits));
    std::string_view rest = std::string_view(word).substr(kBeforeStructure + kDigestDigits);
    for (; !rest.empty(); rest.remove_prefix(2 * kDigestDigits)) {
      const std::string_view digest = rest.substr(kDigestDigits, kDigestDigits);
      const auto [first, is_first] = first_of.try_emplace(rest.substr(0, kDigestDigits), rank, digest);
      if (!is_first && !different && first->second.second != digest)
        different.emplace(first->second.first, rank);
    }
  }
  if (different) {
    meeting.announce(std::string(kExplain));
    meeting.give(digests_of(*state, save_count_));
    const auto lists = meeting.collect(timeout_);
    if (!lists) return end(std::unexpected(lists.error()));
    return end(
        failure(ErrorCode::kCorrupt, "{}", find_difference(*lists, different->first, different->second)));
  }
  if (all_know && structures == structures_) {
    meeting.announce(std::string(kSame));
    return std::string(kSame);
  }
  json said{{"of", json::array()}, {"lists", json::array()}};
  json senders = json::array();
  std::map<std::string, std::size_t> list_of;
  for (std::size_t rank = 0; rank < structures.size(); ++rank) {
    const auto [found, added] = list_of.emplace(structures[rank], list_of.size());
    if (added) senders.push_back(rank);
    said["of"].push_back(found->second);
  }
  meeting.announce(fmt::format("{} {}", kLists, senders.dump()));
  meeting.give(names_of(*state));
  const auto lists = meeting.collect(timeout_);
  if (!lists) return end(std::unexpected(lists.error()));
  for (const auto& sender : senders)
    said["lists"].push_back(json::parse((*lists)[sender.get<std::size_t>()]));
  structures_ = std::move(structures);
  std::string text = said.dump(-1, ' ', false, json::error_handler_t::replace);
  meeting.announce(text);
  return text;
}

Expected<std::string> SaveAgreement::follow(Meeting& meeting, const Expected<SavedState>& state) {
  for (;;) {
    auto said = meeting.listen(2 * timeout_);
    if (!said) return failure(ErrorCode::kTimedOut, "rank 0 did not answer: {}", said.error().message());
    if (said->starts_with(kExplain)) {
      meeting.give(state ? digests_of(*state, save_count_) : "");
    } else if (said->starts_with(kLists)) {
      const auto senders = json::parse(said->substr(kLists.size()));
      const bool sends = std::ranges::find(senders, json(meeting.rank())) != senders.end();
      meeting.give(sends && state ? names_of(*state) : "");
    } else if (*said == kSame || said->starts_with('{')) {
      return said;
    } else {
      return std::unexpected(status_of(*said).error());
    }
  }
}

std::string SaveAgreement::find_difference(const std::vector<std::string>& lists, std::size_t left,
                                           std::size_t right) {
  const auto one = json::parse(lists[left], nullptr, false);
  const auto other = json::parse(lists[right], nullptr, false);
  for (const auto& [key, digests] : one.items()) {
    if (!other.is_object() || !other.contains(key)) continue;
    for (const auto& [name, digest] : digests.items())
      if (other[key].value(name, json()) != digest)
        return fmt::format("{} of rank {} differs from that of rank {} (.check_replicas = false allows it)",
                           name, right, left);
  }
  return fmt::format("the states of ranks {} and {} differ", left, right);
}

}  // namespace muster
