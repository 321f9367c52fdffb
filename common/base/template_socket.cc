#include "common/base/template_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "common/base/text.h"

namespace muster {

namespace {

constexpr std::size_t kMaxFds = 3;
constexpr std::string_view kOrder = "fork";
constexpr std::string_view kOwnArguments = "-";

// Indexed by TemplateAnswer::Kind.
constexpr std::array<std::string_view, 4> kKinds = {"ready", "refused", "forked", "failed"};

struct Message {
  iovec part{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> space{};
  msghdr header{};

  explicit Message(char* data, std::size_t size) : part{data, size} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = space.data();
    header.msg_controllen = space.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

std::vector<UniqueFd> descriptors_in(const msghdr& header) {
  std::vector<UniqueFd> fds;
  const cmsghdr* control = CMSG_FIRSTHDR(&header);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return fds;
  const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
    fds.emplace_back(fd);
  }
  return fds;
}

}  // namespace

Status send_template_message(int socket, std::string_view text, std::initializer_list<int> fds) {
  if (text.size() > kTemplateMessageBytes)
    return failure(ErrorCode::kInvalidArgument, "{} bytes of arguments and environment (at most {})",
                   text.size(), kTemplateMessageBytes);
  Message message(const_cast<char*>(text.data()), text.size());
  message.header.msg_controllen = fds.size() == 0 ? 0 : CMSG_SPACE(fds.size() * sizeof(int));
  if (fds.size() > 0) {
    cmsghdr* control = CMSG_FIRSTHDR(&message.header);
    *control = {CMSG_LEN(fds.size() * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(control), fds.begin(), fds.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do sent = sendmsg(socket, &message.header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return failure(ErrorCode::kUnavailable, "cannot send: {}", std::strerror(errno));
  return {};
}

Expected<TemplateMessage> receive_template_message(int socket, int timeout_ms) {
  pollfd waiting{socket, POLLIN, 0};
  int ready = 0;
  do ready = poll(&waiting, 1, timeout_ms);
  while (ready < 0 && errno == EINTR);
  if (ready == 0) return failure(ErrorCode::kTimedOut, "no answer within {} ms", timeout_ms);
  std::string text(kTemplateMessageBytes, '\0');
  Message message(text.data(), text.size());
  ssize_t got = 0;
  do got = recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return failure(ErrorCode::kUnavailable, "it is gone");
  TemplateMessage received{{}, descriptors_in(message.header)};
  if ((message.header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return failure(ErrorCode::kUnavailable, "a message was cut short");
  text.resize(static_cast<std::size_t>(got));
  received.text = std::move(text);
  return received;
}

// Returns the order as a text. The text has these parts, separated by NULs: the word "fork", the number of
// arguments, each argument, and each change of the environment. If the rank gets the same arguments as the
// template, the number is "-", and no arguments follow.
std::string encode(const ForkOrder& order) {
  std::string text(kOrder);
  (text += '\0') += order.arguments ? std::to_string(order.arguments->size()) : kOwnArguments;
  for (const std::string& word : order.arguments.value_or(std::vector<std::string>())) (text += '\0') += word;
  for (const std::string& entry : order.environment) (text += '\0') += entry;
  return text;
}

Expected<ForkOrder> decode_fork_order(std::string_view text) {
  const auto parts = split(text, '\0');
  const auto count = parts.size() < 2 || parts[1] == kOwnArguments ? 0 : parse_number<std::size_t>(parts[1]);
  if (parts.front() != kOrder || parts.size() < 2 || !count || *count > parts.size() - 2)
    return failure(ErrorCode::kCorrupt, "not an order to a template");
  const auto changes = parts.begin() + 2 + static_cast<std::ptrdiff_t>(*count);
  ForkOrder order{.environment = {changes, parts.end()}};
  if (parts[1] != kOwnArguments) order.arguments.emplace(parts.begin() + 2, changes);
  return order;
}

std::string encode(const TemplateAnswer& answer) {
  std::string text(kKinds[static_cast<std::size_t>(answer.kind)]);
  return answer.text.empty() ? text : text + " " + answer.text.substr(0, kTemplateMessageBytes / 2);
}

Expected<TemplateAnswer> decode_template_answer(std::string_view text) {
  const std::size_t space = std::min(text.find(' '), text.size());
  const auto* const kind = std::ranges::find(kKinds, text.substr(0, space));
  if (kind == kKinds.end()) return failure(ErrorCode::kCorrupt, "not an answer of a template");
  return TemplateAnswer{static_cast<TemplateAnswer::Kind>(kind - kKinds.begin()),
                        std::string(text.substr(std::min(space + 1, text.size())))};
}

}  // namespace muster
