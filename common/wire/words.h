// Enums that are written as words in messages and in workers' datagrams. Each has one table of names, for
// reading and writing.
//
// Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace muster::wire {

// The kinds of report that a worker sends over MUSTER_SOCKET (docs/protocol.md).
enum class ReportKind : std::uint8_t {
  kHeartbeat,
  kStep,
  kSection,
  kProfile,
  kResumed,
  kCommitted,
  kSaving,
  kFenced,
  kIdle,
  kFinished,
  kHello,
  kStacks,
  kPreempted,
  kSaved,
  kMemorySlots,
  kHeld,
  kLastLine,
  kMetric,
};

// Says whether the ranks are forked from a template, that is, from a process that has already loaded their
// program.
enum class Warm : std::uint8_t {
  kAuto,  // only programs with the ELF note
  kOn,
  kOff,
};

// The service through which the ranks of an MPI program find each other.
enum class Mpi : std::uint8_t {
  kAuto,  // depends on the library that the program needs
  kNone,
  kPmix,
  kPmi,
};

// The verbs of messages between MPI servers (mpi_messages.h).
enum class MpiVerb : std::uint8_t {
  kFence,
  kFetch,
  kPublish,
  kLookUp,
  kUnpublish,
  kWithdraw,
  kAnswer,
};

// The files in a rank's log directory. The rank itself writes the trace.
enum class LogFile : std::uint8_t {
  kStdout,
  kStderr,
  kOrder,
  kError,
  kTrace,
};

template <class Word>
struct Words;
template <>
struct Words<ReportKind> {
  static constexpr std::pair<ReportKind, std::string_view> kAll[] = {
      {ReportKind::kHeartbeat, "heartbeat"},
      {ReportKind::kStep, "step"},
      {ReportKind::kSection, "section"},
      {ReportKind::kProfile, "profile"},
      {ReportKind::kResumed, "resumed"},
      {ReportKind::kCommitted, "committed"},
      {ReportKind::kSaving, "saving"},
      {ReportKind::kFenced, "fenced"},
      {ReportKind::kIdle, "idle"},
      {ReportKind::kFinished, "finished"},
      {ReportKind::kHello, "hello"},
      {ReportKind::kStacks, "stacks"},
      {ReportKind::kPreempted, "preempted"},
      {ReportKind::kSaved, "saved"},
      {ReportKind::kMemorySlots, "memory_slots"},
      {ReportKind::kHeld, "held"},
      {ReportKind::kLastLine, "last_line"},
      {ReportKind::kMetric, "metric"},
  };
};
template <>
struct Words<Warm> {
  static constexpr std::pair<Warm, std::string_view> kAll[] = {
      {Warm::kAuto, "auto"}, {Warm::kOn, "on"}, {Warm::kOff, "off"}};
};
template <>
struct Words<Mpi> {
  static constexpr std::pair<Mpi, std::string_view> kAll[] = {
      {Mpi::kAuto, "auto"}, {Mpi::kNone, "none"}, {Mpi::kPmix, "pmix"}, {Mpi::kPmi, "pmi"}};
};
template <>
struct Words<MpiVerb> {
  static constexpr std::pair<MpiVerb, std::string_view> kAll[] = {
      {MpiVerb::kFence, "fence"},    {MpiVerb::kFetch, "fetch"},         {MpiVerb::kPublish, "publish"},
      {MpiVerb::kLookUp, "look_up"}, {MpiVerb::kUnpublish, "unpublish"}, {MpiVerb::kWithdraw, "withdraw"},
      {MpiVerb::kAnswer, "answer"}};
};
template <>
struct Words<LogFile> {
  static constexpr std::pair<LogFile, std::string_view> kAll[] = {{LogFile::kStdout, "stdout.log"},
                                                                  {LogFile::kStderr, "stderr.log"},
                                                                  {LogFile::kOrder, "order.log"},
                                                                  {LogFile::kError, "error.json"},
                                                                  {LogFile::kTrace, "trace.json"}};
};

// Returns the name of a value. The table has all values.
template <class Word>
constexpr std::string_view name_of(Word word) {
  return std::ranges::find(Words<Word>::kAll, word, &std::pair<Word, std::string_view>::first)->second;
}

template <class Word>
constexpr std::optional<Word> word_named(std::string_view name) {
  const auto* found = std::ranges::find(Words<Word>::kAll, name, &std::pair<Word, std::string_view>::second);
  return found == std::end(Words<Word>::kAll) ? std::nullopt : std::optional(found->first);
}

}  // namespace muster::wire
