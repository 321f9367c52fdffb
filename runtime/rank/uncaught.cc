#include "runtime/rank/uncaught.h"

#include <atomic>
#include <c10/util/Exception.h>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cxxabi.h>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <muster/rank/progress.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <typeinfo>
#include <unistd.h>

#include "common/base/file.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"
#include "runtime/rank/training_loop.h"

namespace muster {
namespace {

constexpr int kExitPreempted = 75;  // EX_TEMPFAIL: start it again
// After this time no error counts as wrong use, because a program with its own loop and data may be training
// without ever reporting a step.
constexpr std::chrono::seconds kWrongUseLimit{30};

// The C++ runtime calls the handler without arguments, so the text must be global. It is never destroyed,
// because the handler also runs if the destructor of a static object throws.
std::string& who() {
  static auto* text = new std::string;
  return *text;
}

// The training thread sets these explanations; any thread may read them.
struct Explanation {
  std::mutex mutex;
  Explain of_model;
  Explain of_call;
};
Explanation& explanation() {
  static auto* one = new Explanation;
  return *one;
}

// Returns the type of the current exception. If another exception is nested in it, this is the type of the
// outer one.
std::string current_exception_type() {
  int status = 0;
  const std::type_info* type = abi::__cxa_current_exception_type();
  const std::unique_ptr<char, void (*)(void*)> demangled(
      type == nullptr ? nullptr : abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free);
  const std::string_view name = demangled ? demangled.get() : "unknown";
  constexpr std::string_view kNested = "std::_Nested_exception<";
  return std::string(name.starts_with(kNested) ? name.substr(kNested.size(), name.size() - kNested.size() - 1)
                                               : name);
}

std::string current_exception_type_and_text() {
  return fmt::format("{}: {}", current_exception_type(), current_exception_text());
}

TimePoint& began() {
  static TimePoint when;
  return when;
}

// Returns true if the current exception is an error of torch but not one of communication.
bool is_of_torch() {
  try {
    throw;
  } catch (const c10::DistError&) {
    return false;
  } catch (const c10::Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

// Returns true if the current exception shows that a function was used in a wrong way, for example with a
// wrong option. If a step or a batch has already begun, or if the process has run for longer than
// kWrongUseLimit, returns false.
bool is_wrong_use() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  const bool wrong =
      type != nullptr && (*type == typeid(std::logic_error) || *type == typeid(std::invalid_argument));
  return wrong && !step_time().step_began() && !batch_was_taken() && Clock::now() - began() < kWrongUseLimit;
}

OnAllRanks nature_of_current_exception() {
  try {
    throw;
  } catch (const OnAllRanks& nature) {
    return nature;
  } catch (...) {
    return {.final = is_wrong_use()};
  }
}

// If the current exception is a Preempted, returns its message. For any other exception, returns nothing.
std::optional<std::string> preemption() {
  try {
    throw;
  } catch (const Preempted& preempted) {
    return preempted.what();
  } catch (...) {
    return std::nullopt;
  }
}

[[noreturn]] void on_terminate() {
  static std::atomic_flag entered;
  if (entered.test_and_set()) pause();  // another thread is already ending the process
  if (std::current_exception() == nullptr) {
    const std::string message = "std::terminate was called without an exception";
    std::fprintf(stderr, "%s%s\n", who().c_str(), message.c_str());
    write_error_file(message, {});
    flush_trace();
    std::abort();
  }
  if (const auto message = preemption()) {
    // A preemption is not a failure. So this prints a line for the user, and writes no error file.
    std::fprintf(stderr, "%s%s\n", who().c_str(), message->c_str());
    std::fflush(nullptr);
    flush_trace();
    _exit(kExitPreempted);
  }
  const std::string message = describe_current_exception();
  const std::string cause = cause_of_current_exception();
  end_with_error(message, nature_of_current_exception(), cause == message ? "" : cause);
}

}  // namespace

void end_with_error(const std::string& message, const OnAllRanks& nature, const std::string& cause) {
  if (!nature.told) std::fprintf(stderr, "%s%s\n", who().c_str(), message.c_str());
  write_error_file(message, nature, cause);
  std::fflush(nullptr);
  flush_trace();
  _exit(1);
}

std::string error_file_content(const std::string& message, std::int64_t unix_seconds,
                               const OnAllRanks& nature, const std::string& cause) {
  nlohmann::json content{
      {"message",
       {{"message", message},
        {"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(unix_seconds)}}}}}};
  if (nature.final) content["final"] = true;
  if (nature.told) content["told"] = true;
  if (!cause.empty()) content["cause"] = cause;
  return content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_error_file(const std::string& message, const OnAllRanks& nature, const std::string& cause) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  const auto written =
      write_file_durably(path, error_file_content(message, std::time(nullptr), nature, cause));
  if (!written) std::fprintf(stderr, "%s\n", written.error().message().c_str());
}

void explain_exceptions_with(Explain explain) {
  const std::lock_guard lock(explanation().mutex);
  explanation().of_model = std::move(explain);
}
void explain_exceptions_of_threads_with(Explain explain) {
  const std::lock_guard lock(explanation().mutex);
  explanation().of_call = std::move(explain);
}

std::string current_exception_text() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return fmt::format("{}, not a std::exception", current_exception_type());
  }
}

std::string describe_current_exception() {
  const std::string text = current_exception_type_and_text();
  Explain of_model, of_call;
  {
    const std::lock_guard lock(explanation().mutex);
    of_model = explanation().of_model;
    of_call = explanation().of_call;
  }
  // Both explanations are needed: a rank that has no more data may also be in another collective than the
  // other ranks.
  const std::string explained = (of_call ? of_call(text) : "") + (of_model ? of_model(text) : "");
  if (!explained.empty() || !is_of_torch()) return text + explained;
  const std::string batch = batch_in_hand();
  return batch.empty() ? text : fmt::format("{} (in training with {})", text, batch);
}

std::string cause_of_current_exception() {
  try {
    throw;
  } catch (const std::nested_exception& outer) {
    try {
      if (outer.nested_ptr()) outer.rethrow_nested();
    } catch (...) {
      return cause_of_current_exception();
    }
  } catch (...) {
  }
  return current_exception_type_and_text();
}

void handle_uncaught_exceptions(const std::string& rank, TimePoint now) {
  began() = now;
  // Under a launcher, the text does not contain the rank. The launcher adds the rank itself; if several ranks
  // print the same line, it prints the line only once.
  who() = std::getenv("MUSTER_JOB_ID") == nullptr ? "rank " + rank + ": " : "";
  std::set_terminate(on_terminate);
}

}  // namespace muster
