#include "common/wire/codec.h"

#include <cmath>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

namespace muster::wire {
namespace {

Bytes body_of(const nlohmann::json& json) {
  std::string body;
  nlohmann::json::to_cbor(json, body);
  return Bytes(body);
}

using namespace std::chrono_literals;

Frame frame_of(const std::string& bytes) {
  FrameReader reader;
  std::vector<Frame> frames;
  EXPECT_TRUE(reader.feed(bytes, frames));
  EXPECT_EQ(frames.size(), 1u);
  return frames.at(0);
}

FrameHeader header(std::uint64_t term, std::uint64_t attempt, std::uint64_t sequence, std::uint8_t type = 0) {
  return {type, kLauncher, NodeId(3), Term(term), Attempt(attempt), Sequence(sequence)};
}

std::uint8_t type_of(const ToLauncher& message) {
  return frame_of(encode(FrameHeader{}, message)).header.type;
}
std::uint8_t type_of(const ToAgent& message) {
  return frame_of(encode(FrameHeader{}, message)).header.type;
}

// Counts the fields of an aggregate: it can be initialized with that many values.
struct Anything {
  template <class T>
  operator T() const {  // NOLINT(google-explicit-constructor)
    std::abort();       // never called
  }
};
template <class Message, class... Fields>
constexpr std::size_t field_count() {
  if constexpr (requires { Message{Fields{}..., Anything{}}; })
    return field_count<Message, Fields..., Anything>();
  else
    return sizeof...(Fields);
}

template <class Messages>
nlohmann::json body_as_json(const Messages& message) {
  return nlohmann::json::from_cbor(frame_of(encode(FrameHeader{}, message)).body.view());
}
Expected<ToAgent> decoded(const Frame& frame, const ToAgent*) {
  return decode_for_agent(frame);
}
Expected<ToLauncher> decoded(const Frame& frame, const ToLauncher*) {
  return decode_for_launcher(frame);
}
Expected<ToNeighbour> decoded(const Frame& frame, const ToNeighbour*) {
  return decode_for_neighbour(frame);
}

// Other values that this field might have; its type accepts one of them.
std::vector<nlohmann::json> other_values(const nlohmann::json& value) {
  using nlohmann::json;
  if (value.is_boolean()) return {json(!value.get<bool>())};
  if (value.is_number()) return {json(value.get<std::int64_t>() + 3)};
  if (value.is_binary()) return {json::binary({7, 0, 255})};
  if (value.is_null()) return {json(3)};
  if (value.is_string())
    return {json("x"), json("step"), json("order.log"), json("off"), json("pmi"), json("fetch")};
  if (value.is_object()) return {json{{"k", "v"}}, json{{"k", 3}}};
  return {json{"x"}, json{3}, json::array({json{{"first", 1}, {"last", 2}, {"words", {"w"}}}}),
          json::array({json{{"pid", 7}, {"name", "n"}, {"uid", 1}, {"error", 2}, {"node", 3}}})};
}

template <class Messages>
void expect_that_every_field_travels(const Messages& message, const nlohmann::json::json_pointer& within) {
  const nlohmann::json usual = body_as_json(message);
  for (const auto& [name, value] : usual.at(within).items()) {
    const auto field = within / name;
    if (value.is_object() && !value.empty()) {
      expect_that_every_field_travels(message, field);
      continue;
    }
    bool travels = false;
    for (const nlohmann::json& other : other_values(value)) {
      nlohmann::json said = usual;
      said[field] = other;
      Frame frame = frame_of(encode(FrameHeader{}, message));
      frame.body = body_of(said);
      const auto back = decoded(frame, &message);
      if (!back || back->index() != message.index()) continue;
      const nlohmann::json again = body_as_json(*back);
      said[field] = again.at(field);
      travels = travels || (again == said && again.at(field) != value);
    }
    EXPECT_TRUE(travels) << "message " << message.index() << ": " << field.to_string();
  }
}

template <class Messages, std::size_t index = 0>
void expect_that_every_message_travels() {
  if constexpr (index < std::variant_size_v<Messages>) {
    using Message = std::variant_alternative_t<index, Messages>;
    const Messages usual(Message{});
    EXPECT_EQ(body_as_json(usual).size(), field_count<Message>()) << "message " << index;
    expect_that_every_field_travels(usual, nlohmann::json::json_pointer());
    expect_that_every_message_travels<Messages, index + 1>();
  }
}

TEST(Codec, EveryFieldOfEveryMessageTravels) {
  expect_that_every_message_travels<ToAgent>();
  expect_that_every_message_travels<ToLauncher>();
  expect_that_every_message_travels<ToNeighbour>();
  EXPECT_EQ(body_as_json(ToAgent(Welcome{})).at("job").size(), field_count<JobSpec>());
}

TEST(Codec, AMessageBelongsToItsAttemptUnlessItIsOutputOrOfTheConnection) {
  EXPECT_TRUE(belongs_to_attempt(ToLauncher(WorkerExited{})));
  EXPECT_TRUE(belongs_to_attempt(ToLauncher(WorkersGone{})));
  for (const ToLauncher& free :
       {ToLauncher(Hello{}), ToLauncher(Output{}), ToLauncher(Pong{}), ToLauncher(AgentRemark{}),
        ToLauncher(LogsElsewhere{}), ToLauncher(LogPiece{})})
    EXPECT_FALSE(belongs_to_attempt(free)) << free.index();
}

TEST(Codec, AJobAndItsOrdersReachTheAgent) {
  JobSpec job;
  job.job_id = "j";
  job.command = {"train", "--lr", "0.1"};
  job.environment = {{"A", "1"}};
  job.inherited = {{"NCCL_DEBUG", "INFO"}};
  job.interface = "eth1";
  job.redirects = {0, 3};
  job.stdout_filters = {"loss"};
  job.run_id = "r";
  job.master_port = 29517;
  job.virtual_local_rank = true;
  job.share_gpus = true;
  job.input_rank = Rank(3);
  job.wrappers = {{Rank(1), Rank(2), {"gdb", "--args"}}};
  job.trace = true;
  job.limits = {.grace = 1s,
                .controller_grace = 2s,
                .silence_limit = 3s,
                .heartbeat_limit = 4s,
                .hang_limit = 5s,
                .uninterruptible_limit = 9s,
                .output_stall = 6ms,
                .log_limit_bytes = 7,
                .memory_tier_bytes = 8};
  const auto welcome = decode_for_agent(frame_of(encode(header(1, 2, 3), ToAgent(Welcome{NodeId(4), job}))));
  ASSERT_TRUE(welcome);
  EXPECT_EQ(std::get<Welcome>(*welcome).node, NodeId(4));
  EXPECT_EQ(std::get<Welcome>(*welcome).job.command, job.command);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.environment, job.environment);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.inherited, job.inherited);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.interface, job.interface);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.redirects, job.redirects);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.stdout_filters, job.stdout_filters);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.run_id, "r");
  EXPECT_EQ(std::get<Welcome>(*welcome).job.limits, job.limits);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.master_port, 29517);
  EXPECT_TRUE(std::get<Welcome>(*welcome).job.virtual_local_rank);
  EXPECT_TRUE(std::get<Welcome>(*welcome).job.share_gpus);
  EXPECT_EQ(std::get<Welcome>(*welcome).job.input_rank, Rank(3));
  EXPECT_EQ(std::get<Welcome>(*welcome).job.wrappers.at(0).last, Rank(2));
  EXPECT_EQ(std::get<Welcome>(*welcome).job.wrappers.at(0).words, job.wrappers.at(0).words);
  EXPECT_TRUE(std::get<Welcome>(*welcome).job.trace);

  const auto start =
      decode_for_agent(frame_of(encode(FrameHeader{}, ToAgent(StartWorkers{"127.0.0.1", 29500, 40}))));
  EXPECT_EQ(std::get<StartWorkers>(start.value()).resume_step, 40u);
  const auto clean =
      decode_for_agent(frame_of(encode(FrameHeader{}, ToAgent(StartWorkers{"127.0.0.1", 29500, {}}))));
  EXPECT_FALSE(std::get<StartWorkers>(clean.value()).resume_step.has_value());
}

TEST(Codec, TheEndAndTheProfileOfAWorkerReachTheLauncher) {
  WorkerExited exited;
  exited.rank = Rank(2);
  exited.signal = 9;
  exited.last_lines = {"a", "b"};
  const auto back = decode_for_launcher(frame_of(encode(FrameHeader{}, ToLauncher(exited))));
  EXPECT_EQ(std::get<WorkerExited>(back.value()).rank, Rank(2));
  EXPECT_EQ(std::get<WorkerExited>(back.value()).last_lines, exited.last_lines);
  const WorkerReported profile{
      Rank(1), ReportKind::kProfile, 7, "", 0, {{"data", 5}, {"compute", 1'000'000'000'000}}};
  const auto told = decode_for_launcher(frame_of(encode(FrameHeader{}, ToLauncher(profile))));
  EXPECT_EQ(std::get<WorkerReported>(told.value()).parts_ns, profile.parts_ns);
}

TEST(Codec, MetricsThatAreNotFiniteReachTheLauncher) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  WorkerReported report{Rank(1), ReportKind::kMetric, 7, ""};
  report.values = {{"a", 0.1},       {"b", std::numeric_limits<double>::quiet_NaN()},
                   {"c", kInfinity}, {"d", -kInfinity},
                   {"e", 3.0},       {"f", std::numeric_limits<double>::denorm_min()}};
  const auto told = decode_for_launcher(frame_of(encode(FrameHeader{}, ToLauncher(report))));
  auto values = std::get<WorkerReported>(told.value()).values;
  EXPECT_TRUE(std::isnan(values.at("b")));
  values.erase("b");
  report.values.erase("b");
  EXPECT_EQ(values, report.values);
}

TEST(Codec, ARefusalSaysWhetherAnotherAddressMayHelp) {
  const AttemptRefused refused{
      .exit_code = 125, .message = "no way", .unreachable = false, .no_answer = true};
  const auto said = decode_for_launcher(frame_of(encode(FrameHeader{}, ToLauncher(refused))));
  EXPECT_FALSE(std::get<AttemptRefused>(said.value()).unreachable);
  EXPECT_TRUE(std::get<AttemptRefused>(said.value()).no_answer);
}

TEST(Codec, InputTravelsByteForByte) {
  const std::string text("a\0\xff\n", 4);
  const auto said = decode_for_agent(frame_of(encode(FrameHeader{}, ToAgent(Input{Bytes(text), true}))));
  EXPECT_EQ(std::get<Input>(said.value()).text.view(), text);
  EXPECT_TRUE(std::get<Input>(*said).end);
  const auto taken = decode_for_launcher(frame_of(encode(FrameHeader{}, ToLauncher(InputTaken{7, 5}))));
  EXPECT_EQ(std::get<InputTaken>(taken.value()).written_bytes, 7);
  EXPECT_EQ(std::get<InputTaken>(*taken).read_bytes, 5);
}

TEST(Codec, APartOfASlotIsSentWithoutACopy) {
  const std::string bytes("\0\xff\1", 3);
  const std::string head = encode_before_text(FrameHeader{}, SlotPart{.number = 7, .text = {}}, bytes);
  const auto back = decode_for_neighbour(frame_of(head + bytes));
  EXPECT_EQ(std::get<SlotPart>(back.value()).number, 7u);
  EXPECT_EQ(std::get<SlotPart>(*back).text.view(), bytes);
}

TEST(Codec, AddressesTravelBothWays) {
  Hello hello;
  hello.addresses = {"eth0 10.77.0.10/24", "eth0 fd00::10/64"};
  const auto said = decode_for_launcher(frame_of(encode(FrameHeader{}, ToLauncher(hello))));
  EXPECT_EQ(std::get<Hello>(said.value()).addresses, hello.addresses);
  PrepareAttempt plan;
  plan.peers = {"10.77.0.10", "10.77.0.11"};
  const auto told = decode_for_agent(frame_of(encode(FrameHeader{}, ToAgent(plan))));
  EXPECT_EQ(std::get<PrepareAttempt>(told.value()).peers, plan.peers);
}

TEST(Codec, EveryWordIsSentByItsName) {
  for (const auto& [kind, name] : Words<ReportKind>::kAll) {
    const Frame frame = frame_of(encode(FrameHeader{}, ToLauncher(WorkerReported{Rank(1), kind, 7, ""})));
    EXPECT_EQ(nlohmann::json::from_cbor(frame.body.view()).at("kind"), name);
    const auto back = decode_for_launcher(frame);
    ASSERT_TRUE(back) << name;
    EXPECT_EQ(std::get<WorkerReported>(*back).kind, kind);
  }
  for (const auto& [file, name] : Words<LogFile>::kAll) {
    const Frame frame = frame_of(encode(FrameHeader{}, ToAgent(LogTaken{Rank(1), file, 7})));
    EXPECT_EQ(nlohmann::json::from_cbor(frame.body.view()).at("file"), name);
    const auto back = decode_for_agent(frame);
    ASSERT_TRUE(back) << name;
    EXPECT_EQ(std::get<LogTaken>(*back).file, file);
  }
  for (const auto& [warm, name] : Words<Warm>::kAll) {
    JobSpec job;
    job.warm = warm;
    const Frame frame = frame_of(encode(FrameHeader{}, ToAgent(Welcome{NodeId(4), job})));
    EXPECT_EQ(nlohmann::json::from_cbor(frame.body.view()).at("job").at("warm"), name);
    const auto back = decode_for_agent(frame);
    ASSERT_TRUE(back) << name;
    EXPECT_EQ(std::get<Welcome>(*back).job.warm, warm);
  }
}

TEST(Codec, AMessageWithAnUnknownWordIsRefusedWithTheWord) {
  Frame frame = frame_of(encode(FrameHeader{}, ToLauncher(WorkerReported{})));
  auto body = nlohmann::json::from_cbor(frame.body.view());
  for (const nlohmann::json& wrong : {nlohmann::json("shout"), nlohmann::json(3), nlohmann::json(nullptr)}) {
    body["kind"] = wrong;
    frame.body = body_of(body);
    const auto refused = decode_for_launcher(frame);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
    if (wrong.is_string()) EXPECT_THAT(refused.error().message(), testing::HasSubstr("unknown word 'shout'"));
  }
}

TEST(Codec, OutputCarriesAnyBytes) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  Output output;
  output.text = Bytes(text);
  const auto back = decode_for_launcher(frame_of(encode(FrameHeader{}, ToLauncher(output))));
  EXPECT_EQ(std::get<Output>(back.value()).text.view(), text);
}

TEST(Codec, APieceOfALogCarriesAnyBytesWithoutACopy) {
  const LogPiece about{.rank = Rank(3),
                       .file = LogFile::kOrder,
                       .offset = 1ULL << 40,
                       .text = {},
                       .last = true,
                       .left_bytes = 9};
  for (const std::string& text :
       {std::string(), std::string("\0\xff\x5a line\n", 9), std::string(1 << 20, 'x')}) {
    LogPiece whole = about;
    whole.text = Bytes(text);
    const std::string frame = encode_before_text(header(1, 2, 3), about, text) + text;
    for (const std::string& bytes : {frame, encode(header(1, 2, 3), ToLauncher(whole))}) {
      const auto back = decode_for_launcher(frame_of(bytes));
      ASSERT_TRUE(back);
      const auto& piece = std::get<LogPiece>(*back);
      EXPECT_EQ(piece.text.view(), text);
      EXPECT_EQ(piece.offset, about.offset);
      EXPECT_EQ(piece.file, LogFile::kOrder);
      EXPECT_TRUE(piece.last);
      EXPECT_EQ(piece.left_bytes, 9U);
    }
  }
}

TEST(Codec, OutputsTextMayBeSentWithoutACopy) {
  const Output about{
      .rank = Rank(3), .local_rank = LocalRank(1), .stream = 2, .text = {}, .dropped_line_count = 70'000};
  for (const std::size_t size : {0UL, 1UL, 70'000UL}) {
    const std::string text(size, 'x');
    const auto back = decode_for_launcher(frame_of(encode_before_text(FrameHeader{}, about, text) + text));
    ASSERT_TRUE(back) << back.error().message();
    const auto& output = std::get<Output>(*back);
    EXPECT_EQ(output.text.view(), text);
    EXPECT_EQ(output.rank, Rank(3));
    EXPECT_EQ(output.stream, 2);
    EXPECT_EQ(output.dropped_line_count, 70'000U);
  }
}

// The same message from a peer that lacks this field, given as a JSON pointer, and has an unknown one.
Frame without(Frame frame, const std::string& pointer) {
  auto body = nlohmann::json::from_cbor(frame.body.view());
  const nlohmann::json::json_pointer field(pointer);
  EXPECT_TRUE(body.contains(field)) << pointer;
  body.at(field.parent_pointer()).erase(field.back());
  body["of_the_future"] = 1;
  frame.body = body_of(body);
  return frame;
}

TEST(Codec, AFieldWithADefaultMayBeMissing) {
  JobSpec job;
  job.max_restarts = 3;
  job.store_on_agent = false;
  const Frame welcome = frame_of(encode(FrameHeader{}, ToAgent(Welcome{NodeId(4), job})));
  const auto older = decode_for_agent(without(welcome, "/job/store_on_agent"));
  ASSERT_TRUE(older);
  EXPECT_TRUE(std::get<Welcome>(*older).job.store_on_agent);
  EXPECT_EQ(std::get<Welcome>(*older).job.max_restarts, 3);
  for (const auto& [name, field, may_be_zero] : kTimeLimits) {
    job.limits.*field = 1h;
    const auto said =
        decode_for_agent(without(frame_of(encode(FrameHeader{}, ToAgent(Welcome{NodeId(4), job}))),
                                 "/job/limits/" + std::string(name)));
    ASSERT_TRUE(said) << name;
    EXPECT_EQ(std::get<Welcome>(*said).job.limits.*field, JobLimits{}.*field) << name;
  }
  const Frame start = frame_of(encode(FrameHeader{}, ToAgent(StartWorkers{"127.0.0.1", 29500, 40})));
  const auto clean = decode_for_agent(without(start, "/resume_step"));
  ASSERT_TRUE(clean);
  EXPECT_FALSE(std::get<StartWorkers>(*clean).resume_step);
  Output output;
  output.dropped_line_count = 7;
  const Frame said = frame_of(encode(FrameHeader{}, ToLauncher(output)));
  const auto spoken = decode_for_launcher(without(said, "/dropped_line_count"));
  ASSERT_TRUE(spoken);
  EXPECT_EQ(std::get<Output>(*spoken).dropped_line_count, 0U);
}

TEST(Codec, ARequiredFieldMayNotBeMissing) {
  const Frame welcome = frame_of(encode(FrameHeader{}, ToAgent(Welcome{NodeId(4), {}})));
  for (const std::string field : {"/node", "/job/command", "/job/limits"})
    EXPECT_FALSE(decode_for_agent(without(welcome, field))) << field;
  const Frame exited = frame_of(encode(FrameHeader{}, ToLauncher(WorkerExited{})));
  for (const std::string field : {"/rank", "/exit_code", "/signal"})
    EXPECT_FALSE(decode_for_launcher(without(exited, field))) << field;
}

TEST(Codec, WrongTypesAndMissingFieldsAreRefusedWithTheReason) {
  Frame frame = frame_of(encode(FrameHeader{}, ToAgent(Ping{1})));
  frame.body = body_of({{"sent", 1}});
  const auto missing = decode_for_agent(frame);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), testing::HasSubstr("sent_ns"));
  frame.header.type = 200;
  EXPECT_EQ(decode_for_agent(frame).error().message(), "frame of unknown type 200");
  EXPECT_FALSE(decode_for_launcher(frame_of(encode(FrameHeader{}, ToAgent(Ping{1})))));
}

TEST(Codec, DecodedMessagesCanBeEncodedAgain) {
  Frame frame = frame_of(encode(FrameHeader{}, ToLauncher(AgentRemark{"x"})));
  frame.body = body_of({{"text", std::string(kMaxBodyBytes - 16, 'x')}});
  ASSERT_LE(frame.body.view().size(), kMaxBodyBytes);
  EXPECT_FALSE(decode_for_launcher(frame));
  frame.body = body_of({{"text", std::string(kMaxBodyBytes - 8192, 'x')}});
  const auto long_notice = decode_for_launcher(frame);
  ASSERT_TRUE(long_notice);
  EXPECT_LE(encode(FrameHeader{}, *long_notice).size(), kHeaderBytes + kMaxBodyBytes);
  Frame leftovers = frame_of(encode(FrameHeader{}, ToLauncher(LeftoversUnkillable{})));
  leftovers.body = body_of({{"left", std::vector<nlohmann::json>(100'000, nlohmann::json::object())}});
  EXPECT_FALSE(decode_for_launcher(leftovers)) << "it would be 30 times as long";
}

TEST(Dispatcher, DropsFramesForAnotherNode) {
  Dispatcher dispatcher(NodeId(4), NodeId(3));
  FrameHeader mine = header(1, 0, 1);
  mine.destination = NodeId(4);
  FrameHeader other = header(2, 0, 7);
  other.destination = NodeId(5);
  EXPECT_EQ(dispatcher.judge(other), Dispatcher::Result::kOtherNode);
  EXPECT_EQ(dispatcher.judge(header(2, 0, 8)), Dispatcher::Result::kOtherNode);
  EXPECT_EQ(dispatcher.judge(mine), Dispatcher::Result::kDeliver) << "the dropped frames have no effect";
}

TEST(Dispatcher, DropsRepeatedFrames) {
  Dispatcher dispatcher(kLauncher, NodeId(3));
  EXPECT_EQ(dispatcher.judge(header(1, 0, 1)), Dispatcher::Result::kDeliver);
  EXPECT_EQ(dispatcher.judge(header(1, 0, 1)), Dispatcher::Result::kRepeated);
  EXPECT_EQ(dispatcher.judge(header(1, 0, 3)), Dispatcher::Result::kDeliver);
  EXPECT_EQ(dispatcher.judge(header(1, 0, 2)), Dispatcher::Result::kRepeated);
}

FrameHeader from(NodeId source, std::uint64_t term, std::uint64_t sequence) {
  FrameHeader made = header(term, 0, sequence);
  made.source = source;
  return made;
}

TEST(Dispatcher, CountsTheFramesOfEachTermSeparately) {
  Dispatcher dispatcher(kLauncher, NodeId(3));
  EXPECT_EQ(dispatcher.judge(from(NodeId(3), 1, 9)), Dispatcher::Result::kDeliver);
  EXPECT_EQ(dispatcher.judge(from(NodeId(3), 1, 2)), Dispatcher::Result::kRepeated);
  EXPECT_EQ(dispatcher.judge(from(NodeId(3), 2, 1)), Dispatcher::Result::kDeliver);
}

TEST(Dispatcher, DropsFramesThatItsPeerSendsInAnothersName) {
  Dispatcher dispatcher(kLauncher, NodeId(3));
  EXPECT_EQ(dispatcher.judge(from(NodeId(4), 2, 1)), Dispatcher::Result::kStranger);
  EXPECT_EQ(dispatcher.judge(from(kLauncher, 2, 1)), Dispatcher::Result::kStranger);
  EXPECT_EQ(dispatcher.judge(from(NodeId(3), 1, 1)), Dispatcher::Result::kDeliver)
      << "the dropped frames have no effect";
}

TEST(Dispatcher, ObeysTheHighestTermItHasSeen) {
  Dispatcher dispatcher(kLauncher, NodeId(3));
  EXPECT_EQ(dispatcher.judge(header(1, 0, 50)), Dispatcher::Result::kDeliver);
  EXPECT_EQ(dispatcher.judge(header(2, 0, 1)), Dispatcher::Result::kDeliver)
      << "a new term counts its frames from the start";
  EXPECT_EQ(dispatcher.judge(header(1, 0, 51)), Dispatcher::Result::kStaleTerm);
  EXPECT_EQ(dispatcher.term(), Term(2));
}

TEST(Dispatcher, DropsFramesOfAnEarlierAttemptExceptItsOutputAndLogs) {
  Dispatcher dispatcher(kLauncher, NodeId(3));
  dispatcher.advance_to(Attempt(5));
  EXPECT_EQ(dispatcher.judge(header(1, 4, 1, type_of(ToLauncher(WorkerExited{})))),
            Dispatcher::Result::kStaleAttempt);
  EXPECT_EQ(dispatcher.judge(header(1, 4, 2, type_of(ToAgent(StartWorkers{})))),
            Dispatcher::Result::kStaleAttempt);
  EXPECT_EQ(dispatcher.judge(header(1, 4, 3, type_of(ToLauncher(Output{})))), Dispatcher::Result::kDeliver);
  EXPECT_EQ(dispatcher.judge(header(1, 0, 4, type_of(ToLauncher(Pong{})))), Dispatcher::Result::kDeliver);
  EXPECT_EQ(dispatcher.judge(header(1, 5, 5, type_of(ToLauncher(WorkerExited{})))),
            Dispatcher::Result::kDeliver);
}

}  // namespace
}  // namespace muster::wire
