#include "agent/core/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>

#include "tests/unit/agent/store_messages.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using enum StoreCommand;

const std::string kReady(1, '\0');
const std::string kNotReady(1, '\1');
const std::string kStop(1, kStopWaiting);
const std::string kCanceled(1, kWaitCanceled);

// A store and its clients 1 to 4, validated.
class StoreTest : public testing::Test {
 protected:
  StoreTest() { restart({}); }

  void restart(StoreLimits limits) {
    store_ = std::make_unique<Store>(limits);
    for (const int client : {1, 2, 3, 4}) {
      store_->connected(id(client));
      say(client, validate());
    }
  }
  static StoreClientId id(int client) { return StoreClientId(static_cast<std::uint64_t>(client)); }

  std::string say(int client, std::string_view bytes) {
    const Status done = store_->feed(id(client), bytes, output_);
    EXPECT_TRUE(done) << done.error().message();
    return output_.reply;
  }
  // The error's text; the client is then disconnected, as the server would do.
  std::string refused(int client, std::string_view bytes) {
    const Status done = store_->feed(id(client), bytes, output_);
    EXPECT_FALSE(done);
    store_->disconnected(id(client));
    return done ? "" : done.error().message();
  }

  std::unique_ptr<Store> store_;
  StoreOutput output_;
};

TEST_F(StoreTest, AnswersAPingWithItsNumber) {
  EXPECT_EQ(say(1, ping(0x12345678)), raw(0x12345678u));
}

TEST_F(StoreTest, ReturnsTheLastValueSet) {
  EXPECT_EQ(say(1, set("k", "old")), "");
  EXPECT_EQ(say(1, set("k", "new")), "");
  EXPECT_EQ(say(2, get("k")), blob("new"));
}

TEST_F(StoreTest, AnUnknownKeyReadsAsEmpty) {
  EXPECT_EQ(say(1, get("none")), blob(""));
}

TEST_F(StoreTest, KeysAndValuesMayHoldAnyBytes) {
  const std::string key("a\0b\xff", 4), value("\0\n\xfe", 3);
  say(1, set(key, value));
  EXPECT_EQ(say(1, get(key)), blob(value));
  EXPECT_EQ(say(1, get("a")), blob(""));
}

TEST_F(StoreTest, AddCountsFromZeroAndLeavesText) {
  EXPECT_EQ(say(1, add("n", 5)), raw<std::int64_t>(5));
  EXPECT_EQ(say(2, add("n", -7)), raw<std::int64_t>(-2));
  EXPECT_EQ(say(1, get("n")), blob("-2"));
}

TEST_F(StoreTest, AddReadsTheNumberAtTheBeginningOfAText) {
  say(1, set("n", " 12abc"));
  EXPECT_EQ(say(1, add("n", 1)), raw<std::int64_t>(13));
}

TEST_F(StoreTest, AddWrapsAround) {
  say(1, add("n", INT64_MAX));
  EXPECT_EQ(say(1, add("n", 1)), raw(INT64_MIN));
}

TEST_F(StoreTest, AddToTextOrToTooLargeANumberDropsTheClientAndKeepsTheValue) {
  say(1, set("text", "abc") + set("empty", "") + set("large", "99999999999999999999"));
  EXPECT_THAT(refused(2, add("text", 1)), HasSubstr("not a number"));
  EXPECT_THAT(refused(3, add("empty", 1)), HasSubstr("not a number"));
  EXPECT_THAT(refused(4, add("large", 1)), HasSubstr("not a number"));
  EXPECT_EQ(say(1, get("text")), blob("abc"));
}

TEST_F(StoreTest, CompareSetSetsOnlyOverTheExpectedValue) {
  say(1, set("k", "a"));
  EXPECT_EQ(say(1, command(kCompareSet, {"k", "x", "b"})), blob("a"));
  EXPECT_EQ(say(1, command(kCompareSet, {"k", "", "b"})), blob("a"));
  EXPECT_EQ(say(1, command(kCompareSet, {"k", "a", "b"})), blob("b"));
  EXPECT_EQ(say(1, get("k")), blob("b"));
}

TEST_F(StoreTest, CompareSetOfAMissingKeySetsItOnlyOverNothing) {
  EXPECT_EQ(say(1, command(kCompareSet, {"k", "x", "b"})), blob("x"));
  EXPECT_EQ(say(1, check({"k"})), kNotReady);
  EXPECT_EQ(say(1, command(kCompareSet, {"k", "", "b"})), blob("b"));
  EXPECT_EQ(say(1, get("k")), blob("b"));
}

TEST_F(StoreTest, CompareSetReleasesOnlyWhenItSets) {
  say(2, wait({"k"}));
  say(1, command(kCompareSet, {"k", "x", "b"}));
  EXPECT_THAT(output_.released, IsEmpty());
  say(1, command(kCompareSet, {"k", "", "b"}));
  EXPECT_THAT(output_.released, ElementsAre(id(2)));
}

TEST_F(StoreTest, CheckWantsEveryKeyAndCountsQueues) {
  say(1, set("a", "") + push("q", "1"));
  EXPECT_EQ(say(1, check({"a"})), kReady);
  EXPECT_EQ(say(1, check({"a", "q"})), kReady);
  EXPECT_EQ(say(1, check({"a", "b"})), kNotReady);
  EXPECT_EQ(say(1, check({})), kReady);
}

TEST_F(StoreTest, WaitEndsAtOnceWhenAllKeysExist) {
  say(1, set("a", "1") + push("q", "1"));
  EXPECT_EQ(say(2, wait({"a", "q"})), kStop);
  EXPECT_EQ(say(2, wait({})), kStop);
}

TEST_F(StoreTest, EveryCommandThatSetsReleasesWaitingClients) {
  for (const std::string& setting :
       {set("k", "1"), add("k", 1), command(kAppend, {"k", "1"}), command(kCompareSet, {"k", "", "1"}),
        counted(kMultiSet, {"other", "1", "k", "1"}, 2), push("k", "1")}) {
    restart({});
    EXPECT_EQ(say(2, wait({"k"})), "");
    say(1, setting);
    EXPECT_THAT(output_.released, ElementsAre(id(2))) << "command " << static_cast<int>(setting[0]);
  }
}

TEST_F(StoreTest, WaitForSeveralKeysEndsWithTheLast) {
  say(1, set("c", "1"));
  say(2, wait({"a", "b", "a", "c"}));
  say(3, wait({"b"}));
  say(1, set("a", "1"));
  EXPECT_THAT(output_.released, IsEmpty());
  say(1, set("a", "2"));
  EXPECT_THAT(output_.released, IsEmpty());
  say(1, set("b", "1"));
  EXPECT_THAT(output_.released, ElementsAre(id(2), id(3)));
  say(1, set("b", "2"));
  EXPECT_THAT(output_.released, IsEmpty());
}

TEST_F(StoreTest, AKeyThatArrivedCountsForAWaitEvenWhenItIsDeleted) {
  say(2, wait({"a", "b"}));
  say(1, set("a", "1") + command(kDeleteKey, {"a"}) + set("b", "1"));
  EXPECT_THAT(output_.released, ElementsAre(id(2)));
}

TEST_F(StoreTest, AClientThatSetsItsAwaitedKeyIsReleasedInOrder) {
  EXPECT_EQ(say(1, wait({"a"}) + ping(7) + set("a", "1") + ping(8)), raw(7u) + kStop + raw(8u));
  EXPECT_THAT(output_.released, IsEmpty());
}

TEST_F(StoreTest, ACanceledWaitIsNotReleasedAndLeavesNothing) {
  const std::size_t before = store_->total_bytes();
  say(2, wait({"a", "b"}));
  EXPECT_GT(store_->total_bytes(), before);
  EXPECT_EQ(say(2, command(kCancelWait)), kCanceled);
  EXPECT_EQ(store_->total_bytes(), before);
  say(1, set("a", "1") + set("b", "1"));
  EXPECT_THAT(output_.released, IsEmpty());
}

TEST_F(StoreTest, CancelAfterTheReleaseIsStillAnswered) {
  say(2, wait({"a"}));
  say(1, set("a", "1"));
  EXPECT_THAT(output_.released, ElementsAre(id(2)));
  EXPECT_EQ(say(2, command(kCancelWait)), kCanceled);
}

TEST_F(StoreTest, AClientThatLeftIsNotReleasedAndLeavesNothing) {
  const std::size_t before = store_->total_bytes();
  say(2, wait({"a", "b"}));
  say(3, std::string_view(set("half", "value")).substr(0, 12));
  store_->disconnected(id(2));
  store_->disconnected(id(3));
  EXPECT_EQ(store_->total_bytes(), before);
  say(1, set("a", "1"));
  EXPECT_THAT(output_.released, IsEmpty());
}

TEST_F(StoreTest, DeleteRemovesValuesAndNotQueues) {
  const std::size_t before = store_->total_bytes();
  say(1, set("a", "1"));
  EXPECT_EQ(say(1, command(kDeleteKey, {"a"})), raw<std::int64_t>(1));
  EXPECT_EQ(say(1, command(kDeleteKey, {"a"})), raw<std::int64_t>(0));
  EXPECT_EQ(say(1, get("a")), blob(""));
  EXPECT_EQ(store_->total_bytes(), before);
  say(1, push("q", "1"));
  EXPECT_EQ(say(1, command(kDeleteKey, {"q"})), raw<std::int64_t>(0));
  EXPECT_EQ(say(1, command(kQueueLen, {"q"})), raw<std::int64_t>(1));
}

TEST_F(StoreTest, CountsAndListsKeysWithValuesOnly) {
  EXPECT_EQ(say(1, command(kListKeys)), raw<std::int64_t>(0));
  say(1, set("a", "1") + add("b", 1) + push("q", "1"));
  say(2, wait({"awaited"}));
  EXPECT_EQ(say(1, command(kGetNumKeys)), raw<std::int64_t>(2));
  const std::string list = say(1, command(kListKeys));
  EXPECT_THAT(
      (std::set{raw<std::int64_t>(2) + blob("a") + blob("b"), raw<std::int64_t>(2) + blob("b") + blob("a")}),
      testing::Contains(list));
}

TEST_F(StoreTest, AppendsToTheExistingValue) {
  say(1, command(kAppend, {"k", "a"}) + command(kAppend, {"k", "bc"}));
  EXPECT_EQ(say(1, get("k")), blob("abc"));
}

TEST_F(StoreTest, SetsAndGetsSeveralKeysInOrder) {
  say(1, counted(kMultiSet, {"a", "1", "b", "22"}, 2));
  EXPECT_EQ(say(1, keys(kMultiGet, {"b", "none", "a"})), blob("22") + blob("") + blob("1"));
}

TEST_F(StoreTest, QueuesAreFirstInFirstOut) {
  const std::size_t before = store_->total_bytes();
  say(1, push("q", "a") + push("q", "b"));
  EXPECT_EQ(say(1, command(kQueueLen, {"q"})), raw<std::int64_t>(2));
  EXPECT_EQ(say(2, pop("q")), raw<std::int64_t>(2) + blob("a"));
  EXPECT_EQ(say(2, pop("q")), raw<std::int64_t>(1) + blob("b"));
  EXPECT_EQ(say(2, pop("q")), raw<std::int64_t>(0));
  EXPECT_EQ(say(2, command(kQueueLen, {"q"})), raw<std::int64_t>(0));
  EXPECT_EQ(store_->total_bytes(), before);
}

TEST_F(StoreTest, APushReleasesOneWaitingClientTheFirst) {
  say(3, wait({"q"}));
  say(2, wait({"q"}));
  say(1, push("q", "a"));
  EXPECT_THAT(output_.released, ElementsAre(id(3)));
  say(1, push("q", "b"));
  EXPECT_THAT(output_.released, ElementsAre(id(2)));
  say(1, push("q", "c"));
  EXPECT_THAT(output_.released, IsEmpty());
}

TEST_F(StoreTest, AQueueAndAValueOfOneKeyAreSeparate) {
  say(1, set("k", "value") + push("k", "queued"));
  EXPECT_EQ(say(1, get("k")), blob("value"));
  EXPECT_EQ(say(1, command(kDeleteKey, {"k"}) + check({"k"}) + pop("k")),
            raw<std::int64_t>(1) + kReady + raw<std::int64_t>(1) + blob("queued"));
  EXPECT_EQ(say(1, check({"k"})), kNotReady);
}

TEST_F(StoreTest, ABarrierEndsForAllWhenTheLastOneArrives) {
  EXPECT_EQ(say(1, barrier("k", 3)), "");
  EXPECT_EQ(say(2, barrier("k", 3)), "");
  EXPECT_THAT(output_.released, IsEmpty());
  EXPECT_EQ(say(3, barrier("k", 3)), kStop);
  EXPECT_THAT(output_.released, ElementsAre(id(1), id(2)));
}

TEST_F(StoreTest, ABarriersKeyCountsArrivalsAndLetsLaterOnesPass) {
  EXPECT_EQ(say(1, barrier("k", 1)), kStop);
  EXPECT_EQ(say(2, get("k")), blob("1"));
  EXPECT_EQ(say(2, barrier("k", 2)), kStop);
  EXPECT_EQ(say(2, barrier("k", 2)), kStop);
  EXPECT_EQ(say(2, add("k", 0)), raw<std::int64_t>(3));
}

TEST_F(StoreTest, AClientThatLeavesABarrierStillCountsAsArrived) {
  say(1, barrier("k", 3));
  EXPECT_EQ(say(1, command(kCancelWait)), kCanceled);
  say(2, barrier("k", 3));
  store_->disconnected(id(2));
  EXPECT_EQ(say(3, barrier("k", 3)), kStop);
  EXPECT_THAT(output_.released, IsEmpty());
}

TEST_F(StoreTest, AWaitForABarriersKeyThatBeganBeforeItEndsWithIt) {
  say(4, wait({"k"}));
  say(1, barrier("k", 2));
  EXPECT_THAT(output_.released, IsEmpty());
  EXPECT_EQ(say(2, barrier("k", 2)), kStop);
  EXPECT_THAT(output_.released, ElementsAre(id(4), id(1)));
}

TEST_F(StoreTest, EveryCommandThatSetsTheKeyOfABarrierEndsIt) {
  for (const std::string& setting : {set("k", "1"), add("k", 1), command(kAppend, {"k", "1"}),
                                     command(kCompareSet, {"k", "1", "2"}), push("k", "1")}) {
    restart({});
    say(2, barrier("k", 3));
    say(1, setting);
    EXPECT_THAT(output_.released, ElementsAre(id(2))) << "command " << static_cast<int>(setting[0]);
  }
}

TEST_F(StoreTest, ABarrierAtATextValueIsRefused) {
  say(1, set("k", "text"));
  EXPECT_THAT(refused(2, barrier("k", 2)), HasSubstr("not a number"));
  EXPECT_EQ(say(1, get("k")), blob("text"));
}

std::string every_command() {
  return validate() + ping(1) + set("k", "value") + get("k") + add("n", 2) +
         command(kCompareSet, {"k", "value", "v"}) + check({"k", "n"}) + wait({"k", "n"}) +
         command(kGetNumKeys) + command(kDeleteKey, {"n"}) + command(kAppend, {"k", "w"}) +
         keys(kMultiGet, {"k", "n"}) + counted(kMultiSet, {"a", "1", "b", ""}, 2) + command(kCancelWait) +
         push("q", "x") + pop("q") + command(kQueueLen, {"q"}) + check({}) + command(kDeleteKey, {"a"}) +
         command(kDeleteKey, {"b"}) + command(kListKeys) + barrier("n", 1);
}

std::string answers(const std::vector<std::string_view>& pieces) {
  Store store;
  StoreOutput output;
  std::string all;
  store.connected(StoreClientId(1));
  for (const std::string_view piece : pieces) {
    EXPECT_TRUE(store.feed(StoreClientId(1), piece, output));
    all += output.reply;
  }
  return all;
}

TEST(StoreInput, MayBeCutInTwoAtEveryByte) {
  const std::string bytes = every_command();
  const std::string whole = answers({bytes});
  EXPECT_EQ(whole.size(), 131u);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string_view view = bytes;
    ASSERT_EQ(answers({view.substr(0, cut), view.substr(cut)}), whole) << "cut at " << cut;
  }
}

TEST(StoreInput, MayComeInPiecesOfAnySize) {
  const std::string bytes = every_command();
  const std::string whole = answers({bytes});
  for (std::size_t size = 1; size < 40; ++size) {
    std::vector<std::string_view> pieces;
    for (std::string_view rest = bytes; !rest.empty(); rest.remove_prefix(std::min(size, rest.size())))
      pieces.push_back(rest.substr(0, size));
    ASSERT_EQ(answers(pieces), whole) << "pieces of " << size;
  }
}

TEST(StoreInput, AFirstCommandOtherThanValidateIsRefusedByItsFirstByte) {
  for (int byte = 1; byte < 256; ++byte) {
    Store store;
    StoreOutput output;
    store.connected(StoreClientId(1));
    EXPECT_FALSE(store.feed(StoreClientId(1), std::string(1, static_cast<char>(byte)), output)) << byte;
    EXPECT_FALSE(store.validated(StoreClientId(1)));
  }
}

TEST(StoreInput, AWrongMagicNumberIsRefused) {
  Store store;
  StoreOutput output;
  store.connected(StoreClientId(1));
  EXPECT_FALSE(store.feed(StoreClientId(1), command(kValidate) + raw(kStoreMagic + 1), output));
  EXPECT_FALSE(store.validated(StoreClientId(1)));
}

TEST_F(StoreTest, UnknownCommandsAndASecondValidateAreRefused) {
  EXPECT_EQ(refused(1, "\x13"), "unknown command 19");
  EXPECT_EQ(refused(2, "\xff"), "unknown command 255");
  EXPECT_EQ(refused(3, validate()), "VALIDATE a second time");
  EXPECT_EQ(say(4, ping(1)), raw(1u));
}

TEST_F(StoreTest, LengthsBeyondTheLimitsAreRefusedBeforeTheirBytesCome) {
  EXPECT_EQ(refused(1, command(kGet) + raw<std::uint64_t>(8193)), "a key of 8193 bytes, the limit is 8192");
  EXPECT_EQ(refused(2, command(kSet, {"k"}) + raw<std::uint64_t>(UINT64_MAX)),
            "a value of 18446744073709551615 bytes, the limit is 8388608");
  EXPECT_EQ(refused(3, command(kWait) + raw<std::uint64_t>(131073)),
            "131073 keys at once, the limit is 131072");
  EXPECT_EQ(say(4, set(std::string(8192, 'k'), "v") + get(std::string(8192, 'k'))), blob("v"));
}

TEST_F(StoreTest, ACommandMayNotGrowBeyondItsLimit) {
  restart({.command_bytes = 100});
  EXPECT_THAT(refused(1, counted(kMultiSet, {"a", std::string(80, 'x'), "b"}, 2)),
              HasSubstr("more than 100 bytes"));
  EXPECT_EQ(say(2, check({"a"})), kNotReady);
}

TEST_F(StoreTest, AFullStoreRefusesMoreAndGoesOn) {
  restart({.total_bytes = 2000});
  say(1, set("a", std::string(1000, 'x')));
  EXPECT_THAT(refused(2, set("b", std::string(1000, 'x'))), HasSubstr("full"));
  EXPECT_THAT(refused(3, push("q", std::string(1000, 'x'))), HasSubstr("full"));
  EXPECT_EQ(say(1, check({"b"}) + check({"q"})), kNotReady + kNotReady);
  say(1, set("a", "") + set("b", std::string(1000, 'x')));
  EXPECT_THAT(refused(4, std::string_view(set("c", std::string(900, 'x'))).substr(0, 800)),
              HasSubstr("full"));
  EXPECT_EQ(say(1, check({"b"})), kReady);
}

TEST_F(StoreTest, TooManyKeysAreRefusedSetOrWaitedFor) {
  restart({.key_count = 3});
  const std::size_t empty = store_->total_bytes();
  say(1, set("a", "1") + set("b", "1"));
  EXPECT_THAT(refused(2, wait({"c", "c", "d"})), HasSubstr("3 keys"));
  say(1, push("q", "1"));
  EXPECT_THAT(refused(3, set("c", "1")), HasSubstr("3 keys"));
  say(1, set("a", "2") + pop("q") + command(kDeleteKey, {"a"}) + command(kDeleteKey, {"b"}));
  EXPECT_EQ(store_->total_bytes(), empty);
}

TEST_F(StoreTest, RepliesMayNotPileUp) {
  restart({.reply_bytes = 1000});
  say(1, set("k", std::string(900, 'x')));
  EXPECT_THAT(refused(2, get("k") + get("k")), HasSubstr("replies of more than 1000 bytes"));
  EXPECT_GE(output_.reply.size(), 908u) << "earlier commands are answered";
  EXPECT_THAT(refused(3, command(kAppend, {"k", std::string(101, 'x')})), HasSubstr("1000 bytes"));
}

TEST_F(StoreTest, AnErrorInOneClientLeavesTheOthersWaiting) {
  say(2, wait({"k"}));
  refused(1, set("other", "1") + "\x7f");
  EXPECT_EQ(say(3, get("other")), blob("1"));
  say(3, set("k", "1"));
  EXPECT_THAT(output_.released, ElementsAre(id(2)));
}

}  // namespace
}  // namespace muster::agent
