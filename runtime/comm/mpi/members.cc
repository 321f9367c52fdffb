#include "runtime/comm/mpi/members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>
#include <utility>

namespace muster::mpi {

void meet(const MpiRequest& request) {
  const auto key = [&](int rank) { return fmt::format("{}/mpi/here/{}", request.prefix, rank); };
  const std::string over = fmt::format("{}/mpi/over", request.prefix);
  std::vector<std::string> all;
  for (const int rank : request.ranks) all.push_back(key(rank));
  request.store->set(key(request.rank), "1");
  std::vector<int> absent;
  try {
    request.store->wait(all, request.timeout);
  } catch (const c10::Error&) {
    for (const int rank : request.ranks)
      if (!request.store->check({key(rank)})) absent.push_back(rank);
  }
  // A rank that comes late must not continue alone.
  if (absent.empty() && request.store->check({over}))
    throw std::runtime_error(fmt::format(
        "backend 'mpi': a group of {} ranks was given up before this rank joined", request.ranks.size()));
  if (absent.empty()) return;
  request.store->set(over, "1");
  throw std::runtime_error(fmt::format(
      "backend 'mpi': a group of {} ranks was not created within {} ms: rank{} {} did not join",
      request.ranks.size(), request.timeout.count(), absent.size() == 1 ? "" : "s", fmt::join(absent, ", ")));
}

std::string waits_key(const std::string& prefix, int place) {
  return fmt::format("{}/mpi/waits/{}", prefix, place);
}

std::string missing(const c10::intrusive_ptr<c10d::Store>& store, const std::string& prefix,
                    const std::vector<int>& ranks, int place, std::int64_t number) {
  std::vector<int> found;
  try {
    for (int each = 0; store != nullptr && std::cmp_less(each, ranks.size()); ++each) {
      const std::string key = waits_key(prefix, each);
      if (each == place || (store->check({key}) && std::stoll(store->get_to_str(key)) >= number)) continue;
      found.push_back(ranks[static_cast<std::size_t>(each)]);
    }
  } catch (const std::exception&) {
    return "the store is gone";
  }
  if (found.empty()) return "";
  return found.size() == 1 ? fmt::format("rank {} does not wait in it", found[0])
                           : fmt::format("ranks {} do not wait in it", fmt::join(found, ", "));
}

}  // namespace muster::mpi
