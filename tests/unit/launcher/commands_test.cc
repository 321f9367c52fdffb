#include "launcher/core/settings/commands.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <sstream>

#include "launcher/core/settings/arguments.h"
#include "launcher/core/settings/completion.h"
#include "launcher/core/settings/help.h"
#include "launcher/core/settings/options.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string command_error_of(std::string_view command, const std::vector<std::string>& words) {
  const auto read = read_command_arguments(*find_command(command), words);
  return read ? "(no error)" : read.error().message();
}

// The text with single spaces, and without the marks of roff and Markdown.
std::string plain(const std::string& marked) {
  const std::string text = std::regex_replace(marked, std::regex(R"(\\\(aq)"), "'");
  std::string result;
  for (const char letter : text) {
    if (letter == '\\' || letter == '`') continue;
    const bool space = letter == ' ' || letter == '\n';
    if (!(space && result.ends_with(' '))) result += space ? ' ' : letter;
  }
  return result;
}

std::string text_in(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Every flag of all commands, each once.
std::vector<const Flag*> all_flags() {
  std::vector<const Flag*> flags;
  for (const Command& command : commands()) {
    if (command.operand == Operand::kProgram && command.name != "run") continue;
    for (const auto table : flags_of(command)) {
      for (const Flag& flag : table) flags.push_back(&flag);
    }
  }
  return flags;
}

TEST(Commands, AreEachInTheHelpWithAtLeastTwoExamples) {
  const std::string overview_text = overview();
  const std::string list = *help_on("commands");
  for (const Command& command : commands()) {
    EXPECT_THAT(overview_text, HasSubstr(command.name));
    EXPECT_THAT(list, HasSubstr(fmt::format("\n  {} ", command.name)));
    EXPECT_GE(command.examples.size(), 2U) << command.name;
    const std::string help = help_of(command);
    EXPECT_THAT(help, HasSubstr(fmt::format("Usage: launch {}", command.name)));
    for (const Example& example : command.examples) {
      EXPECT_THAT(help, HasSubstr(example.line));
      EXPECT_THAT(example.line, HasSubstr("launch"));
    }
    for (const Flag& flag : command.own_flags)
      EXPECT_THAT(help, HasSubstr(spelling_of(flag))) << command.name;
    EXPECT_EQ(*help_on(command.name), help);
  }
}

TEST(Help, IsOneScreenFirst) {
  const std::string first = overview();
  EXPECT_LE(std::ranges::count(first, '\n'), 40) << first;
  for (const Topic& topic : topics()) EXPECT_THAT(first, HasSubstr(fmt::format("\n  {} ", topic.name)));
}

TEST(Help, HasEveryFlagUnderOneTopicAndAllOfThemTogether) {
  const std::string all = *help_on("all");
  for (const Flag& flag : own_flags()) {
    const auto topic = std::ranges::find(topics(), flag.topic, &Topic::name);
    ASSERT_NE(topic, topics().end()) << flag.name << " has no topic";
    EXPECT_THAT(*help_on(topic->name), HasSubstr("\n  " + spelling_of(flag)));
  }
  for (const Flag& flag : torchrun_flags())
    EXPECT_THAT(*help_on("torchrun"), HasSubstr("\n  " + spelling_of(flag)));
  for (const Topic& topic : topics()) EXPECT_THAT(all, HasSubstr(*help_on(topic.name)));
}

TEST(Help, KeepsFlagAndTextApartInLinesOf80Letters) {
  std::string texts = *help_on("all");
  for (const Command& command : commands()) texts += help_of(command);
  for (const Flag* flag : all_flags()) {
    const std::regex apart("\n  " +
                           std::regex_replace(spelling_of(*flag), std::regex(R"([|\[\]])"), R"(\$&)") +
                           "(  |\n {26}[^ ])");
    EXPECT_TRUE(std::regex_search(texts, apart)) << spelling_of(*flag);
  }
  std::istringstream lines(texts);
  for (std::string line; std::getline(lines, line);) {
    const bool is_example = line.starts_with("  launch ") || line.starts_with("  source ");
    if (!is_example) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(Help, AnswersATopicThatDoesNotExist) {
  EXPECT_EQ(help_on("recovry").error().message(), "recovry: not a help topic: did you mean recovery?");
  EXPECT_EQ(help_on("weather").error().message(), "weather: not a help topic: `launch help` lists them");
}

TEST(Commands, ReserveTheNamesOfFutureCommands) {
  for (const char* word : {"key", "agent", "k8s", "slurm", "simulate", "ui"}) {
    EXPECT_EQ(
        refusal_of_word(word).value_or(""),
        fmt::format("there is no `{0}` command; to run a program named {0}: `launch -- {0}`, or its path",
                    word));
    EXPECT_EQ(find_command(word), nullptr) << word;
    EXPECT_THAT(*help_on("commands"), HasSubstr(word));
    EXPECT_THAT(text_in(FLAGS_DOCUMENT), HasSubstr(fmt::format("`{}`", word)));
  }
  EXPECT_EQ(refusal_of_word("train"), std::nullopt);
}

TEST(Commands, AnswerWordsOfOtherToolsWithTheCommandOfTheSamePurpose) {
  const std::string document = text_in(FLAGS_DOCUMENT);
  for (const auto& [word, command] :
       {std::pair("kill", "cancel"), std::pair("stop", "cancel"), std::pair("delete", "cancel"),
        std::pair("ls", "ps"), std::pair("rm", "clean"), std::pair("describe", "status"),
        std::pair("inspect", "status"), std::pair("get", "report"), std::pair("wait", "logs"),
        std::pair("exec", "dump"), std::pair("attach", "logs"), std::pair("squeue", "ps"),
        std::pair("sinfo", "nodes"), std::pair("sinfo", "check"), std::pair("sacct", "report")}) {
    const std::string refusal = refusal_of_word(word).value_or("");
    EXPECT_THAT(refusal, HasSubstr(fmt::format(": `launch {}", command)));
    EXPECT_THAT(refusal, HasSubstr(fmt::format("`launch -- {}`", word)));
    EXPECT_EQ(find_command(word), nullptr) << word;
    EXPECT_THAT(document, HasSubstr(fmt::format("`{}`", word)));
  }
  for (const char* program : {"env", "sh", "tail", "timeout", "hostname", "true"})
    EXPECT_EQ(refusal_of_word(program), std::nullopt) << program;
}

TEST(Commands, TakeHelpAndJson) {
  for (const Command& command : commands()) {
    std::set<std::string_view> names;
    for (const auto table : flags_of(command)) {
      for (const Flag& flag : table) EXPECT_TRUE(names.insert(flag.name).second) << command.name << flag.name;
    }
    EXPECT_TRUE(names.contains("help")) << command.name;
    const bool prints_a_text =
        command.name == "completion" || command.name == "man" || command.name == "help";
    EXPECT_EQ(names.contains("json"), !prints_a_text) << command.name;
  }
}

TEST(Commands, AreEachInTheManPageTheCompletionsAndTheDocument) {
  const std::string man = man_page("1.2.3");
  const std::string document = text_in(FLAGS_DOCUMENT);
  for (const Command& command : commands()) {
    EXPECT_THAT(man, HasSubstr(fmt::format(".SS launch {} ", command.name)));
    EXPECT_THAT(document, HasSubstr(fmt::format("`launch {}", command.name)));
    for (const char* shell : {"bash", "zsh", "fish"})
      EXPECT_THAT(*completion_for(shell), HasSubstr(command.name)) << shell;
  }
}

TEST(Commands, HaveEachFlagInTheManPageTheCompletionsAndTheDocument) {
  const std::string man = plain(man_page("1.2.3"));
  const std::string document = text_in(FLAGS_DOCUMENT);
  const std::string bash = *completion_for("bash");
  const std::string zsh = *completion_for("zsh");
  const std::string fish = *completion_for("fish");
  for (const Flag* flag : all_flags()) {
    EXPECT_THAT(man, HasSubstr(fmt::format(".B {} {}", spelling_of(*flag), plain(description_of(*flag)))));
    if (flag->treatment == Treatment::kUnsupported) continue;
    EXPECT_THAT(bash, HasSubstr(fmt::format("--{} ", flag->name)));
    EXPECT_THAT(zsh, HasSubstr(fmt::format("'--{}[", flag->name)));
    EXPECT_THAT(fish, HasSubstr(fmt::format(" -l {}", flag->name)));
    const bool ours = find_flag(flag->name) == nullptr ||
                      std::ranges::find(own_flags(), flag->name, &Flag::name) != own_flags().end();
    if (ours) EXPECT_THAT(document, HasSubstr(fmt::format("`--{}", flag->name)));
  }
}

TEST(Commands, AgreeWithTheDocumentOnDefaultsAndLimits) {
  const std::string document = text_in(FLAGS_DOCUMENT);
  const std::string guide = text_in(OPERATIONS_DOCUMENT);
  int compared = 0;
  for (const Flag& flag : own_flags()) {
    std::smatch match;
    const std::string text(flag.text);
    if (!std::regex_search(text, match, std::regex(R"(\(default (\d+))"))) continue;
    const std::regex row(fmt::format("\n\\|[^\n|]*`--{}[ `][^\n|]*\\| {} \\|", flag.name, match[1].str()));
    EXPECT_TRUE(std::regex_search(document, row)) << flag.name << " with " << match[1];
    ++compared;
  }
  EXPECT_GE(compared, 8);
  const Options defaults;
  for (const wire::TimeLimit& each : wire::kTimeLimits)
    EXPECT_THAT(find_flag(each.name)->text,
                HasSubstr(fmt::format("(default {:g}", in_seconds(defaults.limits.*each.field))));
  for (const auto& [name, limit] : {std::pair("heartbeat-limit", defaults.limits.heartbeat_limit),
                                    {"hang-limit", defaults.limits.hang_limit}}) {
    EXPECT_THAT(guide, HasSubstr(fmt::format("`--{}` ({:g} s) |", name, in_seconds(limit))))
        << "in the table of hangs";
  }
}

TEST(Commands, AgreeWithTheDocumentOnExitCodes) {
  const std::string document = text_in(EXIT_CODES_DOCUMENT);
  for (const ExitCode& each : exit_codes()) {
    const std::string first(each.code.substr(0, each.code.find_first_of(", ")));
    EXPECT_THAT(document, HasSubstr(fmt::format("\n| {}", first)));
    EXPECT_THAT(*help_on("exit-codes"), HasSubstr(fmt::format("\n  {} ", each.code)));
    EXPECT_THAT(plain(man_page("")), HasSubstr(fmt::format(".B {} {}", each.code, each.meaning)));
  }
}

TEST(ManPage, HasNoLineThatRoffWouldMisread) {
  std::istringstream lines(man_page("1.2.3"));
  const std::set<std::string> macros = {".TH", ".SH", ".SS", ".PP", ".TP", ".B",
                                        ".br", ".nf", ".fi", ".RS", ".RE"};
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.empty());
    EXPECT_FALSE(line.starts_with("'")) << line;
    if (line.starts_with(".")) EXPECT_TRUE(macros.contains(line.substr(0, line.find(' ')))) << line;
  }
}

TEST(CommandArguments, MayStandInAnyOrderAndBeAbbreviated) {
  const auto read = read_command_arguments(*find_command("ps"), {"--js", "--log_dir=/tmp/a"});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(read->has("json"));
  EXPECT_EQ(read->value("log-dir"), "/tmp/a");
  const auto named = read_command_arguments(*find_command("report"), {"job-1", "--json"});
  ASSERT_TRUE(named);
  EXPECT_THAT(named->operands, ElementsAre("job-1"));
  EXPECT_TRUE(named->has("json"));
}

TEST(CommandArguments, AreAnsweredInOneLineWhenWrong) {
  EXPECT_EQ(command_error_of("ps", {"--jsno"}), "--jsno: not a flag of launch ps: did you mean --json?");
  EXPECT_EQ(command_error_of("ps", {"--log-dir"}), "--log-dir: the value is missing: give --log-dir DIR");
  EXPECT_EQ(command_error_of("ps", {"-z"}), "-z: not a flag of launch ps: `launch ps --help` lists them");
  EXPECT_EQ(command_error_of("logs", {"--rank", "0", "--rank=1"}),
            "--rank: given as 0 and as 1: give it once");
  EXPECT_EQ(command_error_of("logs", {"--rank", "0", "-f", "--rank=0", "--follow"}), "(no error)");
  EXPECT_EQ(command_error_of("ps", {"job"}),
            "job: too many arguments: `launch ps` takes none; see `launch ps --help`");
  EXPECT_EQ(command_error_of("report", {"a", "b"}),
            "b: too many arguments: `launch report` takes one; see `launch report --help`");
}

TEST(Completion, NamesTheNearestShell) {
  EXPECT_EQ(completion_for("bsh").error().message(),
            "bsh: unknown shell: give bash, zsh or fish; did you mean bash?");
  EXPECT_EQ(completion_for("").error().message(), "name a shell: bash, zsh or fish");
}

}  // namespace
}  // namespace muster::launcher
