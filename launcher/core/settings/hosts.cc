#include "launcher/core/settings/hosts.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "common/base/text.h"
#include "launcher/core/text/nearest.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kMostHosts = 100'000;
constexpr std::size_t kMostNameBytes = 253;  // of a name in DNS
constexpr std::size_t kMostShownBytes = 80;  // of the wrong text, in a message

// Returns the error that `what` was expected in place of `text`. `source` is a text such as "--hosts" or
// "--hostfile: F line 3".
std::unexpected<Error> expected(std::string_view source, std::string_view text, std::string_view what) {
  const std::string_view cut = text.substr(0, kMostShownBytes);
  return failure(ErrorCode::kInvalidArgument, "{}: '{}{}': expected {}", source, one_line(std::string(cut)),
                 cut.size() < text.size() ? "..." : "", what);
}

bool consists_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [others](unsigned char letter) {
    return (letter < 0x80 && std::isalnum(letter) != 0) ||
           others.find(static_cast<char>(letter)) != others.npos;
  });
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytes && !name.starts_with('-') &&
         consists_of(name, "._:%-");
}

bool is_user(std::string_view user) {
  return !user.empty() && user.size() <= kMostNameBytes && !user.starts_with('-') && consists_of(user, "._-");
}

// Splits at commas outside of brackets.
std::vector<std::string_view> items_of(std::string_view list) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  bool in_brackets = false;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] == '[') in_brackets = true;
    if (list[at] == ']') in_brackets = false;
    if (list[at] != ',' || in_brackets) continue;
    items.push_back(list.substr(begin, at - begin));
    begin = at + 1;
  }
  items.push_back(list.substr(begin));
  return items;
}

// Reads a range such as "3" or "08-12". If the numbers have leading zeros, all get the same length. Returns
// false if the range is malformed, or if there would be more names than allowed.
bool add_numbers(std::string_view range, std::vector<std::string>& numbers) {
  constexpr std::size_t kMostDigits = 9;
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == range.npos ? first : range.substr(dash + 1);
  for (const std::string_view each : {first, last}) {
    if (each.empty() || each.size() > kMostDigits || each.find_first_not_of("0123456789") != each.npos)
      return false;
  }
  const auto low = *parse_number<std::uint32_t>(first);
  const auto high = *parse_number<std::uint32_t>(last);
  if (low > high || high - low >= kMostHosts - std::min(kMostHosts, numbers.size())) return false;
  for (std::uint32_t number = low; number <= high; ++number)
    numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  return true;
}

constexpr std::string_view kRangeForm =
    "numbers or ranges in brackets, low-high, at most 100000 names: n[0-3] or n[01-12,15]";
constexpr std::string_view kNameForm =
    "HOST, HOST:SLOTS or HOST:PORT:SLOTS, at most 4096 slots, optionally with USER@ before it; "
    "a name has letters, digits and ._- and does not begin with a dash; "
    "an IPv6 address needs brackets: [fe80::1%eth0]:2";

constexpr std::string_view kSlotsForm = "HOST:SLOTS or HOST:PORT:SLOTS, at least 1 and at most 4096 slots";

// Returns all names that match a pattern such as r[0-1]n[00-15]. `item` is the whole item of the list. It is
// used in messages.
Expected<std::vector<std::string>> names_of_pattern(std::string_view pattern, std::string_view source,
                                                    std::string_view item) {
  std::vector<std::string> names(1);
  std::string_view rest = pattern;
  while (!rest.empty()) {
    const std::size_t open = std::min(rest.find('['), rest.size());
    for (std::string& name : names) name += rest.substr(0, open);
    if (open == rest.size()) break;
    const std::size_t close = rest.find(']', open);
    if (close == rest.npos) return expected(source, item, kRangeForm);
    std::vector<std::string> numbers;
    for (const std::string_view range : split(rest.substr(open + 1, close - open - 1), ',')) {
      if (!add_numbers(range, numbers)) return expected(source, item, kRangeForm);
    }
    if (names.size() * numbers.size() > kMostHosts || names.front().size() > kMostNameBytes)
      return expected(source, item, kRangeForm);
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  for (const std::string& name : names) {
    if (!is_name(name)) return expected(source, item, kNameForm);
  }
  return names;
}

// One item of a list after it was parsed. All of its names have the same slots.
struct Item {
  std::vector<std::string> names;
  Host rest;  // without a name
};

// ":SLOTS" or ":PORT:SLOTS", or nothing.
bool take_numbers(std::string_view text, Host& host) {
  if (text.empty()) return true;
  if (!text.starts_with(':')) return false;
  const auto parts = split(text.substr(1), ':');
  const auto slots = parse_number<std::int32_t>(parts.back());
  if (parts.size() > 2 || !slots || *slots < 1 || *slots > kMostSlots) return false;
  host.slots = *slots;
  if (parts.size() == 1) return true;
  const auto port = parse_number<std::uint16_t>(parts.front());
  if (!port || *port == 0) return false;
  host.port = *port;
  return true;
}

Expected<Item> parse_item(std::string_view text, std::string_view source) {
  if (text.empty()) return expected(source, text, "the name of a host, as in h0,h1");
  Item item;
  std::string_view rest = text;
  if (const std::size_t at = rest.find('@'); at != rest.npos) {
    item.rest.user = rest.substr(0, at);
    if (!is_user(item.rest.user)) return expected(source, text, kNameForm);
    rest.remove_prefix(at + 1);
  }
  const std::size_t close = rest.find(']');
  const bool is_address =
      rest.starts_with('[') && close != rest.npos && rest.substr(0, close).find(':') != rest.npos;
  if (is_address) {
    const std::string_view address = rest.substr(1, close - 1);
    if (!is_name(address)) return expected(source, text, kNameForm);
    item.names.emplace_back(address);
    rest.remove_prefix(close + 1);
  } else {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    auto names = names_of_pattern(rest.substr(0, colon), source, text);
    if (!names) return std::unexpected(names.error());
    item.names = *std::move(names);
    rest.remove_prefix(colon);
  }
  if (!take_numbers(rest, item.rest)) return expected(source, text, kSlotsForm);
  return item;
}

// Hosts in the order of their first mention.
class Collection {
 public:
  Status add(Item item, std::string_view source, std::string_view text) {
    for (std::string& name : item.names) {
      Host host = item.rest;
      host.name = std::move(name);
      const auto [place, is_new] = index_.try_emplace(host.name, hosts_.size());
      if (is_new) {
        if (hosts_.size() == kMostHosts)
          return expected(source, text, fmt::format("at most {} hosts", kMostHosts));
        hosts_.push_back(std::move(host));
      } else if (const Status merged = merge(hosts_[place->second], host, source, text); !merged) {
        return merged;
      }
    }
    return {};
  }
  std::vector<Host> take() { return std::move(hosts_); }

 private:
  static Status merge(Host& known, const Host& again, std::string_view source, std::string_view text) {
    if (known.user != again.user || known.port != again.port)
      return expected(source, text, fmt::format("the same user and port that {} had before", known.name));
    const std::int32_t sum = known.slots.value_or(1) + again.slots.value_or(1);
    if (sum > kMostSlots)
      return expected(source, text, fmt::format("at most {} slots of a host", kMostSlots));
    known.slots = sum;
    return {};
  }

  std::vector<Host> hosts_;
  std::unordered_map<std::string, std::size_t> index_;
};

Status add_list(std::string_view list, std::string_view source, Collection& hosts) {
  for (const std::string_view text : items_of(list)) {
    auto item = parse_item(text, source);
    if (!item) return std::unexpected(item.error());
    if (const Status added = hosts.add(*std::move(item), source, text); !added) return added;
  }
  return {};
}

// Returns the words of a line. A text around an equals sign is one word, even if it contains spaces.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  for (const char letter : line.substr(0, line.find('#'))) {
    const bool blank = letter == ' ' || letter == '\t' || letter == '\r';
    if (letter == '=' && !words.empty()) {
      words.back() += letter;
      in_word = true;
    } else if (!blank) {
      if (!in_word && !(!words.empty() && words.back().ends_with('='))) words.emplace_back();
      words.back() += letter;
      in_word = true;
    } else {
      in_word = false;
    }
  }
  return words;
}

constexpr std::string_view kLineForm =
    "a line as Open MPI, DeepSpeed, MPICH or Slurm write it: `HOST slots=2`, `HOST:2`, or names alone, n[0-3],m1";

// slots=2, max_slots=4
Status add_settings(const std::vector<std::string>& words, std::string_view source, Host& host) {
  std::optional<std::int32_t> most;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const auto number =
        equals == std::string::npos ? std::nullopt : parse_number<std::int32_t>(words[i].substr(equals + 1));
    if (!number || *number < 1 || *number > kMostSlots) return expected(source, words[i], kLineForm);
    if (name == "slots" && !host.slots) {
      host.slots = *number;
    } else if ((name == "max_slots" || name == "max-slots") && !most) {
      most = *number;
    } else {
      return expected(source, words[i], kLineForm);
    }
  }
  // If max_slots is given without slots, the host gets max_slots slots.
  if (most && host.slots.value_or(*most) > *most)
    return expected(source, fmt::format("slots={}", *host.slots), fmt::format("at most max_slots={}", *most));
  if (most && !host.slots) host.slots = *most;
  return {};
}

Status add_line(std::string_view line, std::string_view source, Collection& hosts) {
  const std::vector<std::string> words = words_of(line);
  if (words.empty()) return {};
  if (words.size() == 1) return add_list(words.front(), source, hosts);
  for (const std::string_view text : items_of(words.front())) {
    auto item = parse_item(text, source);
    if (!item) return std::unexpected(item.error());
    if (const Status set = add_settings(words, source, item->rest); !set) return set;
    if (const Status added = hosts.add(*std::move(item), source, text); !added) return added;
  }
  return {};
}

// Returns the names of a list. It is an error if a name is not in `all`.
Expected<std::unordered_set<std::string>> known_names(const HostNames& given, const std::vector<Host>& all) {
  std::unordered_set<std::string_view> known;
  for (const Host& host : all) known.insert(host.name);
  std::unordered_set<std::string> names;
  for (const std::string_view text : items_of(given.list)) {
    auto item = parse_item(text, given.source);
    if (!item) return std::unexpected(item.error());
    if (item->rest != Host()) return expected(given.source, text, "only the name of a host in the list");
    for (std::string& name : item->names) {
      if (!known.contains(name)) {
        std::vector<std::string_view> candidates;
        for (const Host& host : all) candidates.push_back(host.name);
        const auto near = nearest(name, candidates);
        return expected(given.source, name,
                        near ? fmt::format("a host of the list: did you mean {}?", *near)
                             : fmt::format("a host of the list, such as {}", all.front().name));
      }
      names.insert(std::move(name));
    }
  }
  return names;
}

}  // namespace

Expected<std::vector<Host>> parse_hosts(std::string_view text, std::string_view source) {
  Collection hosts;
  if (const Status added = add_list(text, source, hosts); !added) return std::unexpected(added.error());
  return hosts.take();
}

Expected<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view source) {
  Collection hosts;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    const Status added = add_line(line, fmt::format("{} line {}", source, ++number), hosts);
    if (!added) return std::unexpected(added.error());
  }
  std::vector<Host> all = hosts.take();
  if (all.empty())
    return failure(ErrorCode::kInvalidArgument, "{} names no hosts: expected {}", source, kLineForm);
  return all;
}

Expected<std::vector<Host>> choose_hosts(std::vector<Host> all, const std::optional<HostNames>& include,
                                         const std::optional<HostNames>& exclude) {
  // Both lists can contain the same name. So the names of both are checked against all hosts, and not only
  // against the hosts that are left.
  const std::vector<Host> whole = all;
  for (const auto& [given, keep] : {std::pair(&include, true), std::pair(&exclude, false)}) {
    if (!*given) continue;
    const auto names = known_names(**given, whole);
    if (!names) return std::unexpected(names.error());
    std::erase_if(all, [&](const Host& host) { return names->contains(host.name) != keep; });
  }
  if (!all.empty()) return all;
  const HostNames& last = exclude ? *exclude : *include;
  return failure(ErrorCode::kInvalidArgument, "{}: {} leaves none of {}: give fewer names", last.source,
                 last.list.substr(0, kMostShownBytes), count_of(whole.size(), "host"));
}

std::string folded(const std::vector<std::string>& names) {
  struct Group {
    std::string before, after;
    std::size_t width = 0;  // of all its numbers; 0: no leading zeros
    std::set<std::uint32_t> numbers{};
  };
  std::vector<Group> groups;
  const auto add = [&](Group wanted) {
    const auto same = [&](const Group& each) {
      return each.before == wanted.before && each.after == wanted.after && each.width == wanted.width &&
             !each.numbers.empty() && !wanted.numbers.empty();
    };
    const auto known = std::ranges::find_if(groups, same);
    if (known == groups.end()) return groups.push_back(std::move(wanted));
    known->numbers.merge(wanted.numbers);
  };
  for (const std::string& name : names) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::size_t last = name.find_last_not_of("0123456789", dot == 0 ? 0 : dot - 1);
    const std::size_t begin = last == name.npos ? 0 : last + 1;
    const auto number = parse_number<std::uint32_t>(std::string_view(name).substr(begin, dot - begin));
    if (name.contains(':')) {
      add({"[" + name + "]", ""});
    } else if (begin == 0 || !number || dot - begin > 9) {
      add({name, ""});
    } else {
      add({name.substr(0, begin),
           name.substr(dot),
           name[begin] == '0' && dot > begin + 1 ? dot - begin : 0,
           {*number}});
    }
  }
  std::string text;
  for (const auto& [before, after, width, numbers] : groups) {
    std::string list;
    for (auto from = numbers.begin(); from != numbers.end();) {
      auto to = from;
      for (auto next = std::next(to); next != numbers.end() && *next == *to + 1; ++next) to = next;
      list += fmt::format("{}{:0{}}", list.empty() ? "" : ",", *from, width);
      if (to != from) list += fmt::format("-{:0{}}", *to, width);
      from = std::next(to);
    }
    text += text.empty() ? "" : ",";
    text += before + (numbers.size() > 1 ? "[" + list + "]" : list) + after;
  }
  return text;
}

bool fits_script(std::string_view word) {
  return !word.empty() && std::ranges::none_of(word, [](char c) {
    return c < ' ' || c > '~' || std::string_view("'\\!$`\"").contains(c);
  });
}

std::string address_of(const Host& host) {
  return host.user.empty() ? host.name : fmt::format("{}@{}", host.user, host.name);
}

}  // namespace muster::launcher
