#include "common/wire/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <type_traits>

#include "common/base/check.h"
#include "common/wire/json.h"
#include "common/wire/json_types.h"

namespace muster::wire {

template <class Word>
static void write_word(nlohmann::json& out, Word word) {
  out = name_of(word);
}
template <class Word>
static void read_word(const nlohmann::json& in, Word& word) {
  const auto found = word_named<Word>(in.get_ref<const std::string&>());
  if (!found) throw std::out_of_range(fmt::format("unknown word '{}'", in.get_ref<const std::string&>()));
  word = *found;
}
static void to_json(nlohmann::json& out, ReportKind kind) {
  write_word(out, kind);
}
static void from_json(const nlohmann::json& in, ReportKind& kind) {
  read_word(in, kind);
}
static void to_json(nlohmann::json& out, Warm warm) {
  write_word(out, warm);
}
static void from_json(const nlohmann::json& in, Warm& warm) {
  read_word(in, warm);
}
static void to_json(nlohmann::json& out, Mpi mpi) {
  write_word(out, mpi);
}
static void from_json(const nlohmann::json& in, Mpi& mpi) {
  read_word(in, mpi);
}
static void to_json(nlohmann::json& out, MpiVerb verb) {
  write_word(out, verb);
}
static void from_json(const nlohmann::json& in, MpiVerb& verb) {
  read_word(in, verb);
}
static void to_json(nlohmann::json& out, LogFile file) {
  write_word(out, file);
}
static void from_json(const nlohmann::json& in, LogFile& file) {
  read_word(in, file);
}

static void to_json(nlohmann::json& out, const JobLimits& limits) {
  for (const auto& [name, field, may_be_zero] : kTimeLimits) out[name] = to_ns(limits.*field);
  for (const auto& [name, field, least_bytes] : kSizeLimits) out[name] = limits.*field;
}
static void from_json(const nlohmann::json& in, JobLimits& limits) {
  for (const auto& [name, field, may_be_zero] : kTimeLimits)
    limits.*field = from_ns(in.value(name, to_ns(limits.*field)));
  for (const auto& [name, field, least_bytes] : kSizeLimits) limits.*field = in.value(name, limits.*field);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Wrapper, first, last, words)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(JobSpec, job_id, command, environment, inherited, interface,
                                                working_directory, log_directory, log_nonce,
                                                checkpoint_directory, role, run_id, max_restarts, use_gpus,
                                                store_on_agent, master_port, virtual_local_rank, share_gpus,
                                                redirects, stdout_filters, stderr_filters, limits,
                                                hang_limit_given, warm, output_window_bytes, terminal_streams,
                                                input_rank, wrappers, trace, mpi)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Welcome, node, job)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PrepareAttempt, restart_count, node_count, world_size,
                                                first_rank, local_world_size, host_store, store_address,
                                                agents_on_host, agent_on_host, peers, same_checkpoints,
                                                neighbour_address, rank_counts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Neighbour, node, incarnation, address, port, kept_count,
                                                first_rank, has_ours, key)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StartWorkers, master_address, master_port, resume_step,
                                                neighbours)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StopWorkers, signal, grace_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Ping, sent_ns, output_waits, usage)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(OutputTaken, stream, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LogTaken, rank, file, bytes, stopped)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LogsElsewhere, directory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Hello, node, pid, hostname, version, core_count, incarnation,
                                                addresses, machine)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AttemptPrepared, store_port, other_checkpoints,
                                                neighbour_port, held_ranks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AttemptRefused, exit_code, message, unreachable, no_answer,
                                                missing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(WorkersStarted, pids, warm_count, executed_because)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(WorkerExited, rank, local_rank, pid, exit_code, signal, at_ns,
                                                after_stop, error_file, last_lines, oom_kill_count,
                                                memory_limit_bytes, peak_memory_bytes, core_dumped, gpu_fault,
                                                mpi_fault, ran_last_line)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankUsage, rank, cpu_ns, age_ns, memory_bytes, gpu,
                                                gpu_percent, gpu_memory_bytes, gpu_memory_total_bytes,
                                                gpu_celsius, gpu_watts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Pong, sent_ns, at_ns, output_waits, usage)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Preempt, grace_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(WorkerStalled, rank, stopped, hard, what, section, step,
                                                since_ns, frame, over)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(WorkerStacks, rank, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AgentRemark, text, saved_step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SignalWorkers, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StandBy, local_world_size, agents_on_host, agent_on_host)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(WorkerUnkillable, rank, pid, what)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LeftoversUnkillable, left)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(InputTaken, written_bytes, read_bytes)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CheckHost, job, mark, addresses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HostChecked, unix_ns, link_ns, link_port, directory_error,
                                                program_error, torch, gpu_count, log_free_bytes,
                                                checkpoint_free_bytes, checkpoint_error)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HeldSlot, rank, step, attempt, slot_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SlotsHeld, slots)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SlotWanted, slot, number, offset, bytes)

using nlohmann::json;

// A message without fields is an empty map, so that fields can be added later. (nlohmann's library finds
// to_json() and from_json() by the namespace of their argument.)
static void to_json(json& out, const Leave&) {
  out = json::object();
}
static void from_json(const json&, Leave&) {}
static void to_json(json& out, const DumpStacks&) {
  out = json::object();
}
static void from_json(const json&, DumpStacks&) {}
static void to_json(json& out, const WorkersGone&) {
  out = json::object();
}
static void from_json(const json&, WorkersGone&) {}

// A text is written as a CBOR byte string, not as an array of numbers.
static json binary_of(const Bytes& text) {
  return json::binary({text.view().begin(), text.view().end()});
}
static Bytes bytes_of(const json& text) {
  const auto& bytes = text.get_binary();
  return Bytes(std::string(bytes.begin(), bytes.end()));
}

static void to_json(json& out, const Input& input) {
  out = {{"text", binary_of(input.text)}, {"end", input.end}};
}
static void from_json(const json& in, Input& input) {
  input.text = bytes_of(in.at("text"));
  input.end = in.value("end", false);
}

static void to_json(json& out, const LogPiece& piece) {
  out = {{"rank", piece.rank},     {"file", piece.file},
         {"offset", piece.offset}, {"text", binary_of(piece.text)},
         {"last", piece.last},     {"left_bytes", piece.left_bytes}};
}
static void from_json(const json& in, LogPiece& piece) {
  in.at("rank").get_to(piece.rank);
  in.at("file").get_to(piece.file);
  in.at("offset").get_to(piece.offset);
  piece.text = bytes_of(in.at("text"));
  piece.last = in.value("last", false);
  piece.left_bytes = in.value("left_bytes", std::uint64_t{0});
}
static void to_json(json& out, const MpiAsked& asked) {
  out = {{"verb", asked.verb},   {"number", asked.number},       {"key", asked.key},
         {"count", asked.count}, {"wanted", asked.wanted},       {"node", asked.node},
         {"ok", asked.ok},       {"text", binary_of(asked.text)}};
}
static void from_json(const json& in, MpiAsked& asked) {
  in.at("verb").get_to(asked.verb);
  in.at("number").get_to(asked.number);
  asked.key = in.value("key", std::string());
  asked.count = in.value("count", 0);
  asked.wanted = in.value("wanted", Rank());
  asked.node = in.value("node", NodeId());
  asked.ok = in.value("ok", false);
  asked.text = bytes_of(in.at("text"));
}
static void to_json(json& out, const MpiTold& told) {
  out = {{"verb", told.verb}, {"number", told.number}, {"wanted", told.wanted},
         {"node", told.node}, {"ok", told.ok},         {"text", binary_of(told.text)}};
}
static void from_json(const json& in, MpiTold& told) {
  in.at("verb").get_to(told.verb);
  in.at("number").get_to(told.number);
  told.wanted = in.value("wanted", Rank());
  told.node = in.value("node", NodeId());
  told.ok = in.value("ok", false);
  told.text = bytes_of(in.at("text"));
}
static void to_json(json& out, const SlotPart& part) {
  out = {{"number", part.number}, {"text", binary_of(part.text)}};
}
static void from_json(const json& in, SlotPart& part) {
  in.at("number").get_to(part.number);
  part.text = bytes_of(in.at("text"));
}
// A frame has no floats (frame.cc). So each value is sent as its bits. This also works for NaN and
// infinities.
static json bits_of(const std::map<std::string, double>& values) {
  json bits = json::object();
  for (const auto& [name, value] : values) bits[name] = std::bit_cast<std::uint64_t>(value);
  return bits;
}
static void to_json(json& out, const WorkerReported& report) {
  out = {{"rank", report.rank},       {"kind", report.kind},
         {"step", report.step},       {"text", report.text},
         {"busy_ns", report.busy_ns}, {"parts_ns", report.parts_ns},
         {"group", report.group},     {"loss", report.loss},
         {"samples", report.samples}, {"values", bits_of(report.values)}};
}
static void from_json(const json& in, WorkerReported& report) {
  const WorkerReported usual;
  in.at("rank").get_to(report.rank);
  in.at("kind").get_to(report.kind);
  report.step = in.value("step", usual.step);
  report.text = in.value("text", usual.text);
  report.busy_ns = in.value("busy_ns", usual.busy_ns);
  report.parts_ns = in.value("parts_ns", usual.parts_ns);
  report.group = in.value("group", usual.group);
  report.loss = in.value("loss", usual.loss);
  report.samples = in.value("samples", usual.samples);
  if (const auto found = in.find("values"); found != in.end())
    for (const auto& [name, bits] : found->get_ref<const json::object_t&>())
      report.values[name] = std::bit_cast<double>(whole_number<std::uint64_t>(bits));
}
static void to_json(json& out, const Output& output) {
  out = {{"rank", output.rank},
         {"local_rank", output.local_rank},
         {"stream", output.stream},
         {"text", binary_of(output.text)},
         {"dropped_line_count", output.dropped_line_count}};
}
static void from_json(const json& in, Output& output) {
  in.at("rank").get_to(output.rank);
  in.at("local_rank").get_to(output.local_rank);
  in.at("stream").get_to(output.stream);
  output.text = bytes_of(in.at("text"));
  output.dropped_line_count = in.value("dropped_line_count", std::uint64_t{0});
}

namespace {

// The fields that a message must have. If one of them is missing, the message would have no meaning, or a
// wrong one. If any other field is missing, it gets its default.
template <class Message>
constexpr std::initializer_list<const char*> kRequired{};
template <>
constexpr std::initializer_list<const char*> kRequired<JobSpec>{"job_id", "command", "working_directory",
                                                                "log_directory", "limits"};
template <>
constexpr std::initializer_list<const char*> kRequired<Welcome>{"node", "job"};
template <>
constexpr std::initializer_list<const char*> kRequired<PrepareAttempt>{"node_count", "world_size",
                                                                       "first_rank", "local_world_size"};
template <>
constexpr std::initializer_list<const char*> kRequired<StartWorkers>{"master_address", "master_port"};
template <>
constexpr std::initializer_list<const char*> kRequired<StandBy>{"local_world_size"};
template <>
constexpr std::initializer_list<const char*> kRequired<StopWorkers>{"signal", "grace_ns"};
template <>
constexpr std::initializer_list<const char*> kRequired<Ping>{"sent_ns"};
template <>
constexpr std::initializer_list<const char*> kRequired<OutputTaken>{"stream", "bytes"};
template <>
constexpr std::initializer_list<const char*> kRequired<Input>{"text"};
template <>
constexpr std::initializer_list<const char*> kRequired<InputTaken>{"written_bytes", "read_bytes"};
template <>
constexpr std::initializer_list<const char*> kRequired<MpiAsked>{"verb", "number", "text"};
template <>
constexpr std::initializer_list<const char*> kRequired<MpiTold>{"verb", "number", "text"};
template <>
constexpr std::initializer_list<const char*> kRequired<LogTaken>{"rank", "file", "bytes"};
template <>
constexpr std::initializer_list<const char*> kRequired<LogsElsewhere>{"directory"};
template <>
constexpr std::initializer_list<const char*> kRequired<Hello>{"node", "pid", "version", "incarnation"};
template <>
constexpr std::initializer_list<const char*> kRequired<AttemptPrepared>{"store_port"};
template <>
constexpr std::initializer_list<const char*> kRequired<AttemptRefused>{"exit_code", "message"};
template <>
constexpr std::initializer_list<const char*> kRequired<WorkersStarted>{"pids"};
template <>
constexpr std::initializer_list<const char*> kRequired<WorkerExited>{"rank", "local_rank", "exit_code",
                                                                     "signal", "at_ns"};
template <>
constexpr std::initializer_list<const char*> kRequired<WorkerReported>{"rank", "kind"};
template <>
constexpr std::initializer_list<const char*> kRequired<Pong>{"sent_ns", "at_ns"};
template <>
constexpr std::initializer_list<const char*> kRequired<Preempt>{"grace_ns"};
template <>
constexpr std::initializer_list<const char*> kRequired<WorkerStalled>{"rank", "hard", "since_ns"};
template <>
constexpr std::initializer_list<const char*> kRequired<WorkerStacks>{"rank", "text"};
template <>
constexpr std::initializer_list<const char*> kRequired<AgentRemark>{"text"};
template <>
constexpr std::initializer_list<const char*> kRequired<SignalWorkers>{"signal"};
template <>
constexpr std::initializer_list<const char*> kRequired<WorkerUnkillable>{"rank", "pid"};
template <>
constexpr std::initializer_list<const char*> kRequired<LeftoversUnkillable>{"left"};

template <>
constexpr std::initializer_list<const char*> kRequired<CheckHost>{"job"};
template <>
constexpr std::initializer_list<const char*> kRequired<HostChecked>{"unix_ns"};
template <>
constexpr std::initializer_list<const char*> kRequired<SlotsHeld>{"slots"};
template <>
constexpr std::initializer_list<const char*> kRequired<SlotWanted>{"slot", "number", "offset", "bytes"};

template <class Message>
Message message_of(const json& body) {
  for (const char* field : kRequired<Message>) body.at(field);
  if constexpr (std::is_same_v<Message, Welcome>) {
    for (const char* field : kRequired<JobSpec>) body.at("job").at(field);
  }
  return body.get<Message>();
}

template <class Messages>
std::string encode_as(FrameHeader header, const Messages& message, std::uint8_t first) {
  header.type = static_cast<std::uint8_t>(first + message.index());
  std::string body;
  std::visit([&body](const auto& value) { json::to_cbor(json(value), body); }, message);
  std::string bytes;
  bytes.reserve(kHeaderBytes + body.size());
  append_frame(bytes, header, body);
  return bytes;
}

template <class Messages, std::size_t index = 0>
Messages parse_alternative(std::size_t wanted, const json& body) {
  if constexpr (index < std::variant_size_v<Messages>) {
    if (wanted == index) return message_of<std::variant_alternative_t<index, Messages>>(body);
    return parse_alternative<Messages, index + 1>(wanted, body);
  } else {
    throw std::out_of_range("unknown type");
  }
}

template <class Messages, class Message>
constexpr std::uint8_t type_of(std::uint8_t first) {
  return static_cast<std::uint8_t>(first + Messages(Message{}).index());
}

// Parses the body of a frame, but does not copy the message's field `text`: the field then refers to a part
// of the frame's buffer. nlohmann's library would copy the text byte by byte, and the texts of Output and
// LogPiece are nearly all of the traffic.
template <class Message>
Message decode_with_text(const Bytes& bytes) {
  const std::string_view body = bytes.view();
  const auto text = find_cbor_bytes(body, "text");
  if (!text) return json::from_cbor(body).get<Message>();
  std::string rest(body.substr(0, text->begin));
  rest += '\x40';  // an empty byte string
  rest += std::string_view(text->content.end(), body.end());
  Message message = json::from_cbor(rest).get<Message>();
  message.text = bytes.part(text->content);
  return message;
}

template <class Messages, class Message>
std::string encode_before(FrameHeader header, std::uint8_t first, const Message& message,
                          std::string_view text) {
  header.type = type_of<Messages, Message>(first);
  std::string body;
  json::to_cbor(json(message), body);
  // The keys are sorted, so "text" comes last.
  CHECK(body.ends_with("dtext\x40"), "type {}", header.type);
  body.back() = '\x5a';  // a byte string whose size is in the next four bytes
  for (int shift = 24; shift >= 0; shift -= 8) body.push_back(static_cast<char>(text.size() >> shift));
  std::string bytes;
  append_header(bytes, header, body.size() + text.size());
  return bytes + body;
}

// The sender can leave out fields that have their default. If the message is encoded again, for example for a
// journal, the new frame has all fields. It needs this much more room.
constexpr std::size_t kRoomForDefaults = std::size_t{4} << 10;

template <class Messages>
Expected<Messages> decode_as(Frame frame, std::uint8_t first) {
  if (frame.header.type < first ||
      frame.header.type - first >= static_cast<int>(std::variant_size_v<Messages>)) {
    return failure(ErrorCode::kCorrupt, "frame of unknown type {}", frame.header.type);
  }
  try {
    if constexpr (std::is_same_v<Messages, ToLauncher>) {
      if (frame.header.type == type_of<ToLauncher, Output>(first))
        return decode_with_text<Output>(frame.body);
      if (frame.header.type == type_of<ToLauncher, LogPiece>(first))
        return decode_with_text<LogPiece>(frame.body);
    }
    if constexpr (std::is_same_v<Messages, ToNeighbour>) {
      if (frame.header.type == type_of<ToNeighbour, SlotPart>(first))
        return decode_with_text<SlotPart>(frame.body);
    }
    if (frame.body.view().size() > kMaxBodyBytes - kRoomForDefaults) throw std::length_error("too long");
    return parse_alternative<Messages>(frame.header.type - first, json::from_cbor(frame.body.view()));
  } catch (const std::exception& error) {
    return failure(ErrorCode::kCorrupt, "frame of type {}: {}", frame.header.type, error.what());
  }
}

template <class Message, class... Some>
constexpr bool kIsOneOf = (std::is_same_v<Message, Some> || ...);

// Returns whether the type at this index of All is one of Some.
template <class... Some, class... All>
bool is_one_of(std::size_t index, const std::variant<All...>*) {
  constexpr std::array kIsSome{kIsOneOf<All, Some...>...};
  return index < kIsSome.size() && kIsSome.at(index);
}

// These two functions return whether a message is accepted even if a later attempt has begun. This is true
// for output, for logs, and for messages about the connection.
bool is_free_to_agent(std::size_t index) {
  return is_one_of<Welcome, Leave, Ping, OutputTaken, LogTaken>(index, static_cast<ToAgent*>(nullptr));
}
bool is_free_to_launcher(std::size_t index) {
  return is_one_of<Hello, Output, Pong, AgentRemark, LogsElsewhere, LogPiece>(
      index, static_cast<ToLauncher*>(nullptr));
}

bool belongs_to_attempt(std::uint8_t type) {
  return type < kFirstToLauncher ? !is_free_to_agent(type - kFirstToAgent)
                                 : !is_free_to_launcher(type - kFirstToLauncher);
}

}  // namespace

bool belongs_to_attempt(const ToLauncher& message) {
  return !is_free_to_launcher(message.index());
}

std::string encode(FrameHeader header, const ToAgent& message) {
  return encode_as(header, message, kFirstToAgent);
}
std::string encode(FrameHeader header, const ToLauncher& message) {
  return encode_as(header, message, kFirstToLauncher);
}
std::string encode(FrameHeader header, const ToNeighbour& message) {
  return encode_as(header, message, kFirstToNeighbour);
}

std::string encode_before_text(FrameHeader header, const Output& output, std::string_view text) {
  return encode_before<ToLauncher>(header, kFirstToLauncher, output, text);
}
std::string encode_before_text(FrameHeader header, const LogPiece& piece, std::string_view text) {
  return encode_before<ToLauncher>(header, kFirstToLauncher, piece, text);
}
std::string encode_before_text(FrameHeader header, const SlotPart& part, std::string_view text) {
  return encode_before<ToNeighbour>(header, kFirstToNeighbour, part, text);
}

Expected<ToAgent> decode_for_agent(Frame frame) {
  return decode_as<ToAgent>(std::move(frame), kFirstToAgent);
}
Expected<ToLauncher> decode_for_launcher(Frame frame) {
  return decode_as<ToLauncher>(std::move(frame), kFirstToLauncher);
}
Expected<ToNeighbour> decode_for_neighbour(Frame frame) {
  return decode_as<ToNeighbour>(std::move(frame), kFirstToNeighbour);
}

Dispatcher::Result Dispatcher::judge(const FrameHeader& header) {
  if (header.destination != own_) return Result::kOtherNode;
  if (header.source != peer_) return Result::kStranger;
  if (header.term < term_) return Result::kStaleTerm;
  if (header.term > term_) {
    term_ = header.term;
    newest_ = {};
  }
  if (header.sequence <= newest_) return Result::kRepeated;
  newest_ = header.sequence;
  if (belongs_to_attempt(header.type) && header.attempt < attempt_) return Result::kStaleAttempt;
  return Result::kDeliver;
}

}  // namespace muster::wire
