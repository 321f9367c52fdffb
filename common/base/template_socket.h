// The messages between an agent and a template (docs/warm_start.md): each is one SOCK_SEQPACKET message, with
// descriptors attached.
//
// A template is the user's program, loaded and waiting in muster::init(); it forks one worker for each order.
// Plain functions on a blocking socket; both sides have one thread.
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

// The variable with the template's end of the socket. Workers do not have it.
inline constexpr const char* kTemplateVariable = "MUSTER_TEMPLATE_FD";

struct TemplateMessage {
  std::string text;
  std::vector<UniqueFd> fds;
};
inline constexpr std::size_t kTemplateMessageBytes = 64 << 10;

// kInvalidArgument: the message is too long. kUnavailable: the other side is gone.
Status send_template_message(int socket, std::string_view text, std::initializer_list<int> fds);
// Waits for at most timeout_ms; -1: no limit. kUnavailable: the other side is gone or its message was cut
// short; kTimedOut: no message arrived.
Expected<TemplateMessage> receive_template_message(int socket, int timeout_ms);

// From agent to template, with the worker's stdin, stdout and stderr attached.
struct ForkOrder {
  std::vector<std::string> environment{};                  // NAME=value to set, NAME to unset
  std::optional<std::vector<std::string>> arguments = {};  // the worker's, if they differ from the template's
};
std::string encode(const ForkOrder& order);
// Returns kCorrupt if the text is not an order. decode_template_answer() does so unless the text is an
// answer.
Expected<ForkOrder> decode_fork_order(std::string_view text);

// From template to agent. kForked has a pidfd attached.
struct TemplateAnswer {
  enum class Kind { kReady, kRefused, kForked, kFailed };
  Kind kind{};
  std::string text{};  // kReady: kTemplateVersion or kTakesArguments; kRefused, kFailed: why
};
inline constexpr const char* kTemplateVersion = "2";
// The same version, of a template that can give a worker other arguments than its own.
inline constexpr const char* kTakesArguments = "2 arguments";
std::string encode(const TemplateAnswer& answer);
Expected<TemplateAnswer> decode_template_answer(std::string_view text);

}  // namespace muster
