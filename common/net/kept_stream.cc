#include "common/net/kept_stream.h"

#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

namespace muster::net {

class KeptStream::Conversation final : public Channel, public std::enable_shared_from_this<Conversation> {
 public:
  explicit Conversation(std::shared_ptr<KeptStream> kept) : kept_(std::move(kept)) {}

  void start(OnFrame on_frame, OnClosed on_closed) override {
    on_frame_ = std::move(on_frame);
    on_closed_ = std::move(on_closed);
    asio::post(kept_->executor_, [weak = weak_from_this()] {  // later, after the caller's handler
      const auto self = weak.lock();
      if (!self) return;
      self->started_ = true;
      self->deliver();
    });
  }
  void send(std::string_view frames, std::string_view more) override {
    if (!over_) kept_->stream_->send(frames, more);
  }
  std::size_t backlog_bytes() const override { return closed() ? 0 : kept_->stream_->backlog_bytes(); }
  bool closed() const override { return over_ || kept_->closed(); }
  void close() override { over_ = true; }

  void hear(wire::Frame frame) {
    frames_.push_back(std::move(frame));
    deliver();
  }
  void end(const Error& why) {
    end_ = why;
    deliver();
  }

 private:
  void deliver() {
    if (!started_) return;
    while (!over_ && !frames_.empty()) {
      const wire::Frame frame = std::move(frames_.front());
      frames_.pop_front();
      on_frame_(frame);
    }
    if (!end_ || std::exchange(over_, true)) return;
    on_closed_(*end_);
  }

  std::shared_ptr<KeptStream> kept_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  std::deque<wire::Frame> frames_;
  std::optional<Error> end_;  // reported after `frames_`
  bool started_ = false;
  bool over_ = false;
};

std::shared_ptr<KeptStream> KeptStream::make(const asio::any_io_executor& executor,
                                             std::shared_ptr<Channel> stream) {
  std::shared_ptr<KeptStream> kept(new KeptStream(executor, std::move(stream)));
  kept->stream_->start(
      [weak = std::weak_ptr(kept)](wire::Frame frame) {
        if (const auto self = weak.lock()) self->hear(std::move(frame));
      },
      [weak = std::weak_ptr(kept)](const Error& why) {
        if (const auto self = weak.lock()) self->end(why);
      });
  return kept;
}

KeptStream::KeptStream(const asio::any_io_executor& executor, std::shared_ptr<Channel> stream)
    : executor_(executor), stream_(std::move(stream)), heard_(executor, TimePoint::max()) {}

std::shared_ptr<Channel> KeptStream::converse(std::function<void()> on_over) {
  auto conversation = std::make_shared<Conversation>(shared_from_this());
  conversation_ = conversation;
  on_over_ = std::move(on_over);
  answered_ = false;
  if (closed()) conversation->end(Error(ErrorCode::kUnavailable, "the stream has ended"));
  return conversation;
}

awaitable<bool> KeptStream::answered(TimePoint deadline) {
  const auto self = shared_from_this();
  boost::system::error_code ignored;
  heard_.expires_at(deadline);
  while (!answered_ && !closed() && Clock::now() < deadline)
    co_await heard_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return answered_ && !closed();
}

void KeptStream::hear(wire::Frame frame) {
  const auto conversation = conversation_.lock();
  if (frame.header.type == wire::kNextJob) {
    next_job_ = std::move(frame);
  } else if (frame.header.type == wire::kJobOver) {
    conversation_.reset();
    if (conversation) conversation->end(Error(ErrorCode::kUnavailable, "the agent has left the job"));
    if (const auto on_over = std::exchange(on_over_, {})) on_over();
  } else if (conversation) {
    answered_ = true;
    heard_.cancel();
    conversation->hear(std::move(frame));
  }
}

void KeptStream::end(const Error& why) {
  heard_.cancel();
  if (const auto conversation = conversation_.lock()) conversation->end(why);
}

void KeptStream::close() {
  conversation_.reset();
  on_over_ = {};
  stream_->close();
  heard_.cancel();
}

void KeptStream::send(std::uint8_t type, std::string_view body) {
  wire::FrameHeader header;
  header.type = type;
  std::string frame;
  wire::append_frame(frame, header, body);
  stream_->send(frame);
}

void KeptStream::send_job_over() {
  constexpr std::string_view kNull = "\xf6";
  send(wire::kJobOver, kNull);
}

void KeptStream::send_next_job(const std::vector<std::string>& words) {
  std::string body;
  nlohmann::json::to_cbor(nlohmann::json(words), body);
  send(wire::kNextJob, body);
}

std::optional<std::vector<std::string>> KeptStream::take_next_job() {
  const auto frame = std::exchange(next_job_, std::nullopt);
  if (!frame) return std::nullopt;
  const auto body =
      nlohmann::json::from_cbor(frame->body.view(), /*strict=*/true, /*allow_exceptions=*/false);
  std::vector<std::string> words;
  for (const auto& word : body) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

}  // namespace muster::net
