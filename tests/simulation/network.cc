#include "tests/simulation/network.h"

#include <utility>

namespace muster::simulation {

namespace {

// The bytes that the kernel buffers if the peer does not read.
constexpr std::size_t kSocketBufferBytes = std::size_t{200} << 10;

}  // namespace

class Line::End final : public net::Channel, public std::enable_shared_from_this<End> {
 public:
  End(std::shared_ptr<Line> line, int side, std::weak_ptr<Program> holder)
      : line_(std::move(line)), side_(side), holder_(std::move(holder)) {}
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() override { close(); }

  void start(OnFrame on_frame, OnClosed on_closed) override {
    on_frame_ = std::move(on_frame);
    on_closed_ = std::move(on_closed);
    started_ = true;
    hear_later();
  }
  void send(std::string_view frames, std::string_view more) override {
    if (!closed_) line_->send(side_, std::string(frames).append(more));
  }
  std::size_t backlog_bytes() const override {
    const std::size_t bytes = line_->ways_[static_cast<std::size_t>(side_)].on_its_way_bytes;
    return bytes > kSocketBufferBytes ? bytes - kSocketBufferBytes : 0;
  }
  bool closed() const override { return closed_; }
  void close() override {
    if (!std::exchange(closed_, true)) line_->send(side_, "");
  }

  // Empty: the peer has closed.
  void arrived(std::string bytes) {
    received_.push_back(std::move(bytes));
    if (started_ && received_.size() == 1) hear_later();
  }

 private:
  void hear_later() {
    const auto holder = holder_.lock();
    if (!holder || received_.empty()) return;
    holder->run([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->hear();
    });
  }

  void hear() {
    const auto self = shared_from_this();
    while (!received_.empty() && !closed_) {
      const std::string bytes = std::move(received_.front());
      received_.pop_front();
      line_->ways_[static_cast<std::size_t>(1 - side_)].on_its_way_bytes -= bytes.size();
      if (bytes.empty()) return end(Error(ErrorCode::kUnavailable, "the connection is closed"));
      std::vector<wire::Frame> frames;
      const Status fed = reader_.feed(bytes, frames);
      for (const wire::Frame& frame : frames) {
        if (closed_) return;
        on_frame_(frame);
      }
      if (!fed) return end(fed.error());
    }
  }

  void end(const Error& why) {
    if (closed_) return;
    close();
    on_closed_(why);
  }

  std::shared_ptr<Line> line_;
  int side_;
  std::weak_ptr<Program> holder_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  bool started_ = false;
  bool closed_ = false;
  wire::FrameReader reader_;
  std::deque<std::string> received_;
};

std::shared_ptr<Line> Line::make(Timeline& timeline, Chance& chance, Delays delays) {
  return std::shared_ptr<Line>(new Line(timeline, chance, delays));
}

std::shared_ptr<net::Channel> Line::open(int side, std::weak_ptr<Program> holder) {
  const auto end = std::make_shared<End>(shared_from_this(), side, std::move(holder));
  ends_[static_cast<std::size_t>(side)] = end;
  return end;
}

void Line::close(int side) {
  if (const auto end = ends_[static_cast<std::size_t>(side)].lock()) end->close();
}

void Line::reset() {
  send(0, "");
  send(1, "");
}

void Line::inject(int from, std::string bytes) {
  send(from, std::move(bytes));
}

void Line::cut(int from) {
  ways_[static_cast<std::size_t>(from)].cut = true;
}

void Line::hold(int from, TimePoint until) {
  Way& way = ways_[static_cast<std::size_t>(from)];
  way.held_until = std::max(way.held_until, until);
  if (!std::exchange(way.waits, true))
    timeline_.at(way.held_until, [self = shared_from_this(), from] { self->release(from); });
}

void Line::send(int from, std::string bytes) {
  Way& way = ways_[static_cast<std::size_t>(from)];
  way.on_its_way_bytes += bytes.size();
  if (way.cut) return;
  way.last_arrival = std::max(timeline_.now() + chance_.between(delays_.least, delays_.most),
                              way.last_arrival + Duration(1));
  constexpr int kWhole = 16;
  std::string rest;
  if (bytes.size() > 1 && chance_.one_in(kWhole)) {
    rest = bytes.substr(bytes.size() / 2);
    bytes.resize(bytes.size() / 2);
  }
  timeline_.at(way.last_arrival, [self = shared_from_this(), from, bytes = std::move(bytes)]() mutable {
    self->arrive(from, std::move(bytes));
  });
  if (rest.empty()) return;
  way.last_arrival += delays_.least;
  timeline_.at(way.last_arrival, [self = shared_from_this(), from, rest = std::move(rest)]() mutable {
    self->arrive(from, std::move(rest));
  });
}

void Line::arrive(int from, std::string bytes) {
  Way& way = ways_[static_cast<std::size_t>(from)];
  if (way.cut) return;
  if (way.waits || !way.held.empty()) {
    way.held.push_back(std::move(bytes));
  } else {
    deliver(from, std::move(bytes));
  }
}

void Line::release(int from) {
  Way& way = ways_[static_cast<std::size_t>(from)];
  if (timeline_.now() < way.held_until) {
    timeline_.at(way.held_until, [self = shared_from_this(), from] { self->release(from); });
    return;
  }
  way.waits = false;
  while (!way.held.empty() && !way.cut) {
    std::string bytes = std::move(way.held.front());
    way.held.pop_front();
    deliver(from, std::move(bytes));
  }
}

void Line::deliver(int from, std::string bytes) {
  if (const auto end = ends_[static_cast<std::size_t>(1 - from)].lock()) end->arrived(std::move(bytes));
}

}  // namespace muster::simulation
