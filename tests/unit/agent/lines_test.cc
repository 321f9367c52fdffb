#include "agent/core/output/lines.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string feed(Lines& lines, std::string_view bytes, TimePoint now) {
  std::string buffer(Lines::kMaxLineBytes, '?');
  buffer += bytes;
  return std::string(lines.feed(buffer, now));
}

TEST(Lines, JoinsTextAndNewlineThatWereWrittenSeparately) {
  Lines lines;
  EXPECT_EQ(feed(lines, "step 1", TimePoint()), "");
  EXPECT_EQ(feed(lines, "\n", TimePoint()), "step 1\n");
  EXPECT_EQ(feed(lines, "a\nb\nc", TimePoint()), "a\nb\n");
  EXPECT_EQ(feed(lines, "d\n\n", TimePoint()), "cd\n\n");
  EXPECT_EQ(lines.flush(), "");
}

TEST(Lines, TheUnfinishedLastLineIsALineAtTheEnd) {
  Lines lines;
  feed(lines, "no newline", TimePoint());
  EXPECT_EQ(lines.flush(), "no newline\n");
  EXPECT_EQ(lines.flush(), "");
}

TEST(Lines, CutsALineThatIsTooLongWithoutLosingAByte) {
  const std::string text(3 * Lines::kMaxLineBytes + 17, 'x');
  for (const std::size_t chunk : {std::size_t{1000}, text.size()}) {
    Lines lines;
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += chunk)
      out += feed(lines, std::string_view(text).substr(at, chunk), TimePoint());
    out += feed(lines, "\nend\n", TimePoint());
    EXPECT_EQ(std::ranges::count(out, 'x'), static_cast<std::ptrdiff_t>(text.size()));
    EXPECT_TRUE(out.ends_with("x\nend\n"));
    for (std::size_t at = 0, end = 0; at < out.size(); at = end + 1) {
      end = out.find('\n', at);
      EXPECT_LE(end + 1 - at, Lines::kMaxLineBytes);
    }
  }
}

TEST(Lines, KeepsALineOfExactlyTheLimit) {
  const std::string line = std::string(Lines::kMaxLineBytes - 1, 'x') + "\n";
  Lines whole;
  EXPECT_EQ(feed(whole, line, TimePoint()), line);
  Lines parts;
  EXPECT_EQ(feed(parts, line.substr(0, line.size() - 1), TimePoint()), "");
  EXPECT_EQ(feed(parts, "\n", TimePoint()), line);
}

constexpr TimePoint at_ms(int milliseconds) {
  return TimePoint() + std::chrono::milliseconds(milliseconds);
}

TEST(Lines, AProgressBarIsALineEveryHalfSecondAndWhatItShowsAtLast) {
  Lines lines;
  EXPECT_EQ(feed(lines, "\r 10%", at_ms(0)), " 10%\n");
  EXPECT_EQ(feed(lines, "\r 20%", at_ms(100)), "");
  EXPECT_EQ(feed(lines, "\r 30%\r 40%", at_ms(499)), "");
  EXPECT_EQ(feed(lines, "\r 50%", at_ms(500)), " 50%\n");
  EXPECT_EQ(feed(lines, "\r100%", at_ms(600)), "");
  EXPECT_EQ(feed(lines, "\n", at_ms(610)), "100%\n");
  EXPECT_EQ(feed(lines, "next\n", at_ms(620)), "next\n");
}

TEST(Lines, AFinishedBarThatWasShownIsNotShownAgain) {
  Lines lines;
  EXPECT_EQ(feed(lines, "\r100%", at_ms(0)), "100%\n");
  EXPECT_EQ(feed(lines, "\nnext\n", at_ms(1)), "next\n");
}

TEST(Lines, ABarThatIsWipedLeavesNothing) {
  Lines lines;
  EXPECT_EQ(feed(lines, "\r100%", at_ms(0)), "100%\n");
  EXPECT_EQ(feed(lines, "\r      \repoch 1 done\n", at_ms(1)), "epoch 1 done\n");
  EXPECT_EQ(feed(lines, "\r  7%\r      \r\n", at_ms(2)), "");
}

TEST(Lines, ProgressWithTheCarriageReturnBehindItIsUnderstoodToo) {
  Lines lines;
  EXPECT_EQ(feed(lines, "10%\r", at_ms(0)), "10%\n");
  EXPECT_EQ(feed(lines, "20%\r", at_ms(1)), "");
  EXPECT_EQ(feed(lines, "30%\r\n", at_ms(2)), "30%\n");
}

TEST(Lines, LinesThatEndAsOnWindowsAreLines) {
  Lines lines;
  EXPECT_EQ(feed(lines, "one\r\n\r\ntwo\r\n", at_ms(0)), "one\n\ntwo\n");
}

TEST(Lines, AnEndlessBarTakesNoMemoryAndEndsWithItsLastState) {
  Lines lines;
  for (int i = 0; i < 100'000; ++i) feed(lines, "\rstep " + std::to_string(i), at_ms(0));
  EXPECT_EQ(lines.flush(), "step 99999\n");
}

TEST(Lines, ALongLineThatBeganEarlierIsCutAmongOthers) {
  Lines lines;
  EXPECT_EQ(feed(lines, std::string(40'000, 'x'), at_ms(0)), "");
  const std::string out(feed(lines, std::string(40'000, 'x') + "\nend\n", at_ms(0)));
  EXPECT_EQ(out, std::string(65'535, 'x') + "\n" + std::string(14'465, 'x') + "\nend\n");
}

TEST(Lines, OfManyLinesReadAtOnceOnlyTheLongOneIsCut) {
  std::string plain;
  while (plain.size() < 3 * Lines::kMaxLineBytes) plain += std::string(1000, 'y') + "\n";
  const std::string fits = std::string(65'535, 'x') + "\n";
  const std::string cut = fits + "x\n";
  Lines lines;
  EXPECT_EQ(feed(lines, plain + fits + plain, at_ms(0)), plain + fits + plain);
  EXPECT_EQ(feed(lines, plain + std::string(65'536, 'x') + "\n" + plain, at_ms(0)), plain + cut + plain);
  EXPECT_EQ(feed(lines, plain + std::string(65'536, 'x') + "\n", at_ms(0)), plain + cut);
}

TEST(CountLines, CountsNewlines) {
  EXPECT_EQ(count_lines("a\nb\n\n"), 3U);
}

TEST(LastLines, KeepsTheLastSixtyOverManyPieces) {
  LastLines last;
  EXPECT_TRUE(last.empty());
  for (int i = 0; i < 55; ++i) last.add(std::to_string(i) + "\n");
  last.add("55\n56\n57\n58\n59\n60\n61\n");
  const auto lines = last.lines();
  ASSERT_EQ(lines.size(), 60U);
  EXPECT_EQ(lines.front(), "2");
  EXPECT_EQ(lines.back(), "61");
}

TEST(LastLines, LeavesOutTheRestOfALongLine) {
  LastLines last;
  last.add(std::string(10000, 'z') + "\n");
  EXPECT_THAT(last.lines(), ElementsAre(std::string(LastLines::kMaxBytes, 'z')));
}

}  // namespace
}  // namespace muster::agent
