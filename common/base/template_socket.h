// The messages between an agent and a template (docs/warm_start.md). Each is one SOCK_SEQPACKET message,
// which can have descriptors attached.
//
// A template is a process that has loaded the user's program, and waits in muster::init(). It forks one
// worker for each order. The functions work on a blocking socket. Each side has one thread.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster {

// The environment variable that names the descriptor of the template's end of the socket. Only a template has
// this variable, and workers do not.
inline constexpr const char* kTemplateVariable = "MUSTER_TEMPLATE_FD";

struct TemplateMessage {
  std::string text;
  std::vector<UniqueFd> fds;
};
inline constexpr std::size_t kTemplateMessageBytes = 64 << 10;

// Sends a message. Returns kInvalidArgument if it is too long, and kUnavailable if the other side is gone.
Status send_template_message(int socket, std::string_view text, std::initializer_list<int> fds);
// Waits for a message, for at most `timeout_ms`. If it is -1, there is no limit. Returns kTimedOut if no
// message has arrived. Returns kUnavailable if the other side is gone, or if its message was cut short.
Expected<TemplateMessage> receive_template_message(int socket, int timeout_ms);

// The agent sends this message to make the template fork. The descriptors of the worker's stdin, stdout and
// stderr are attached to it.
struct ForkOrder {
  std::vector<std::string> environment{};                  // NAME=value: to be set; NAME: to be unset
  std::optional<std::vector<std::string>> arguments = {};  // if not the template's arguments
};
std::string encode(const ForkOrder& order);
// Returns kCorrupt if the text is not an order.
Expected<ForkOrder> decode_fork_order(std::string_view text);

// The template answers the agent with this message. If `kind` is kForked, the pidfd of the worker is
// attached.
struct TemplateAnswer {
  enum class Kind { kReady, kRefused, kForked, kFailed };
  Kind kind{};
  std::string text{};  // kReady: kTemplateVersion or kTakesArguments; kRefused, kFailed: why
};
inline constexpr const char* kTemplateVersion = "2";
// A template with this version does everything that kTemplateVersion stands for. It can also give a worker
// other arguments than its own.
inline constexpr const char* kTakesArguments = "2 arguments";
std::string encode(const TemplateAnswer& answer);
Expected<TemplateAnswer> decode_template_answer(std::string_view text);

}  // namespace muster
