#include "launcher/core/job/input_feed.h"

#include <algorithm>

namespace muster::launcher {

void InputFeed::begin(Attempt attempt) {
  attempt_ = attempt;
  gone_ += read_;
  open_ = true;
  end_sent_ = false;
  sent_ = written_ = read_ = 0;
}

void InputFeed::on(const wire::InputTaken& taken) {
  written_ = std::clamp(taken.written_bytes, written_, sent_);
  const std::int64_t read = std::clamp(taken.read_bytes, read_, written_);
  kept_.erase(0, static_cast<std::size_t>(read - read_));
  read_ = read;
}

std::size_t InputFeed::wanted() const {
  if (!open_ || ended_ || unsent() > 0) return 0;
  return std::min({kPieceBytes, window(), kMostKeptBytes - std::min(kMostKeptBytes, kept_.size())});
}

void InputFeed::add(std::string_view text) {
  ended_ = ended_ || text.empty();
  kept_ += text;
}

std::optional<wire::Input> InputFeed::next() {
  const std::size_t size = std::min({kPieceBytes, window(), unsent()});
  if (!open_ || (size == 0 && (!ended_ || end_sent_ || unsent() > 0))) return std::nullopt;
  wire::Input piece{wire::Bytes(kept_.substr(static_cast<std::size_t>(sent_ - read_), size)),
                    ended_ && size == unsent()};
  sent_ += static_cast<std::int64_t>(size);
  end_sent_ = piece.end;
  return piece;
}

}  // namespace muster::launcher
