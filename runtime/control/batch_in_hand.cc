#include "runtime/control/batch_in_hand.h"

#include <exception>
#include <utility>

namespace muster {

namespace {

struct InHand {
  const void* owner = nullptr;
  std::function<std::string()> describe;
};
thread_local InHand in_hand;

}  // namespace

void take_batch(const void* owner, std::function<std::string()> describe) {
  in_hand = {owner, std::move(describe)};
}

void put_batch_back(const void* owner) {
  if (in_hand.owner == owner) in_hand = {};
}

void forget_batch(const void* owner) {
  if (in_hand.owner != owner) return;
  in_hand.owner = nullptr;
  if (std::uncaught_exceptions() == 0)
    in_hand.describe = nullptr;
  else
    in_hand.describe = [text = in_hand.describe()] { return text; };
}

std::string batch_in_hand() {
  return in_hand.describe ? in_hand.describe() : "";
}

}  // namespace muster
