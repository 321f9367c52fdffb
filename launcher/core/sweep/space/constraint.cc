#include "launcher/core/sweep/space/constraint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <compare>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/text.h"

namespace muster::launcher::sweep {

// A chain such as `a + b - c` or `a < b <= c` is one node with all its parts. So a long chain does not make
// the tree deep. Only nesting in the text does.
struct Constraint::Node {
  enum class Kind { kValue, kName, kOr, kAnd, kNot, kCompare, kFold, kSign, kCall };
  Kind kind = Kind::kValue;
  Value value{};                            // of kValue
  std::string name{};                       // of the parameter or the function
  std::vector<std::string_view> symbols{};  // between the parts; of kSign and kNot, before the only one
  std::vector<Node> parts{};
};

namespace {

using Node = Constraint::Node;

constexpr std::size_t kDeepest = 64;
// The tokenizer takes the first symbol that fits. So longer symbols come first.
constexpr std::array<std::string_view, 15> kSymbols = {"**", "<=", ">=", "==", "!=", "<", ">", "+",
                                                       "-",  "*",  "/",  "%",  "(",  ")", ","};
constexpr std::array<std::string_view, 6> kComparisons = {"<", "<=", ">", ">=", "==", "!="};
constexpr std::array<std::string_view, 2> kSigns = {"+", "-"};
constexpr std::array<std::string_view, 3> kProducts = {"*", "/", "%"};
constexpr std::array<std::string_view, 1> kOr = {"or"};
constexpr std::array<std::string_view, 1> kAnd = {"and"};
constexpr std::array<std::string_view, 5> kReserved = {"and", "or", "not", "true", "false"};

struct ConstraintFunction {
  std::string_view name;
  double (*of)(double);  // nullptr: min or max, of two or more values
};
constexpr std::array<ConstraintFunction, 9> kFunctions = {{
    {"min", nullptr},
    {"max", nullptr},
    {"abs", [](double x) { return std::abs(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
}};

// ---- Words ----

struct Token {
  enum class Kind { kNumber, kString, kWord, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // of a string, without its quotes
  std::size_t at = 0;     // the byte at which it begins
};

// Returns an error such as "at character 3: ...". Characters are counted from 1. A letter of several bytes
// counts as one.
std::unexpected<Error> unreadable(std::string_view text, std::size_t at, std::string_view what) {
  const auto letters = std::ranges::count_if(
      text.substr(0, at), [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; });
  constexpr std::size_t kMostShown = 200;
  const std::string_view shown = beginning_of(text, kMostShown);
  return failure(ErrorCode::kInvalidArgument, "cannot read `{}{}`: at character {}: {}",
                 one_line(std::string(shown)), shown.size() < text.size() ? "..." : "", letters + 1,
                 one_line(std::string(what)));
}

bool continues_word(char letter) {
  return is_identifier({&letter, 1}) || (letter >= '0' && letter <= '9');
}

Expected<Token> quoted_token(std::string_view text, std::size_t at) {
  const std::size_t end = text.find(text[at], at + 1);
  if (end == text.npos) return unreadable(text, at, "the quote is not closed");
  return Token{Token::Kind::kString, text.substr(at + 1, end - at - 1), at};
}

Expected<Token> token_at(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  const char first = rest[0];
  if (first == '"' || first == '\'') return quoted_token(text, at);
  if (is_identifier({&first, 1})) {
    const auto end = std::ranges::find_if_not(rest, continues_word);
    return Token{Token::Kind::kWord, rest.substr(0, static_cast<std::size_t>(end - rest.begin())), at};
  }
  if ((first >= '0' && first <= '9') || first == '.') {
    double number = 0;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (code == std::errc::result_out_of_range) return unreadable(text, at, "the number is out of range");
    if (code == std::errc{}) {
      return Token{Token::Kind::kNumber, rest.substr(0, static_cast<std::size_t>(end - rest.data())), at};
    }
  }
  const auto symbol =
      std::ranges::find_if(kSymbols, [rest](std::string_view each) { return rest.starts_with(each); });
  if (symbol != kSymbols.end()) return Token{Token::Kind::kSymbol, *symbol, at};
  std::size_t size = 1;  // of the letter, in UTF-8
  while (size < rest.size() && (static_cast<unsigned char>(rest[size]) & 0xC0) == 0x80) ++size;
  return unreadable(text, at,
                    fmt::format("unknown operator `{}`; use one of + - * / % ** < <= > >= == != and or not",
                                rest.substr(0, size)));
}

Expected<std::vector<Token>> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(" \t\n\r", at)) != text.npos) {
    auto token = token_at(text, at);
    if (!token) return std::unexpected(std::move(token).error());
    at += token->text.size() + (token->kind == Token::Kind::kString ? 2 : 0);
    tokens.push_back(*std::move(token));
  }
  tokens.push_back({Token::Kind::kEnd, "", text.size()});
  return tokens;
}

// ---- Grammar: recursive descent ----

// After the first error the parser is at the end of the text, where no rule continues. So all rules return at
// once.
class Parser {
 public:
  Parser(std::string_view text, std::vector<Token> tokens, std::set<std::string>& names)
      : text_(text), tokens_(std::move(tokens)), names_(names) {}

  Expected<Node> all() {
    Node node = disjunction();
    if (token().kind != Token::Kind::kEnd)
      fail(fmt::format("expected an operator or the end, found {}", found()));
    if (error_) return std::unexpected(*error_);
    return node;
  }

 private:
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepest) parser_.fail(fmt::format("nested more than {} deep", kDeepest));
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  const Token& token() const { return tokens_[at_]; }
  bool is_word(std::string_view word) const {
    return token().kind == Token::Kind::kWord && token().text == word;
  }
  bool is_symbol(std::string_view symbol) const {
    return token().kind == Token::Kind::kSymbol && token().text == symbol;
  }
  std::string found() const {
    return token().kind == Token::Kind::kEnd ? "the end" : fmt::format("`{}`", token().text);
  }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  void fail(std::string_view what) {
    if (!error_) error_ = unreadable(text_, token().at, what).error();
    at_ = tokens_.size() - 1;
  }

  // Reads one part, or a chain of several parts. Between each two parts is one of `separators`.
  Node chain(Node::Kind kind, std::span<const std::string_view> separators, Node (Parser::*part)()) {
    Node node{.kind = kind};
    node.parts.push_back((this->*part)());
    while (token().kind == Token::Kind::kSymbol || token().kind == Token::Kind::kWord) {
      const auto separator = std::ranges::find(separators, token().text);
      if (separator == separators.end()) break;
      advance();
      node.symbols.push_back(*separator);
      node.parts.push_back((this->*part)());
    }
    return node.symbols.empty() ? Node(std::move(node.parts[0])) : node;
  }
  static Node with_part(Node::Kind kind, std::string_view symbol, Node part) {
    Node node{.kind = kind};
    node.symbols.push_back(symbol);
    node.parts.push_back(std::move(part));
    return node;
  }

  Node disjunction() { return chain(Node::Kind::kOr, kOr, &Parser::conjunction); }
  Node conjunction() { return chain(Node::Kind::kAnd, kAnd, &Parser::negation); }
  Node negation() {
    if (!is_word("not")) return chain(Node::Kind::kCompare, kComparisons, &Parser::sum);
    const Deeper deeper(*this);
    advance();
    return with_part(Node::Kind::kNot, "not", negation());
  }
  Node sum() { return chain(Node::Kind::kFold, kSigns, &Parser::product); }
  Node product() { return chain(Node::Kind::kFold, kProducts, &Parser::factor); }
  Node factor() {
    const auto sign = std::ranges::find_if(kSigns, [this](auto each) { return is_symbol(each); });
    if (sign == kSigns.end()) return power();
    const Deeper deeper(*this);
    advance();
    return with_part(Node::Kind::kSign, *sign, factor());
  }
  // As in Python, -2 ** 2 is -4, 2 ** -1 is 0.5, and 2 ** 3 ** 2 is 512.
  Node power() {
    Node base = atom();
    if (!is_symbol("**")) return base;
    const Deeper deeper(*this);
    advance();
    Node node = with_part(Node::Kind::kFold, "**", std::move(base));
    node.parts.push_back(factor());
    return node;
  }

  Node atom() {
    const Token here = token();
    if (here.kind == Token::Kind::kWord && !Constraint::is_reserved(here.text)) return word();
    if (is_symbol("(")) return group();
    Node node;
    if (here.kind == Token::Kind::kNumber) {
      node.value = parse_number<double>(here.text).value_or(0);
    } else if (here.kind == Token::Kind::kString) {
      node.value = std::string(here.text);
    } else if (is_word("true") || is_word("false")) {
      node.value = is_word("true");
    } else {
      fail(fmt::format("expected a number, a text in quotes, a parameter or `(`, found {}", found()));
      return node;
    }
    advance();
    return node;
  }
  Node group() {
    const Deeper deeper(*this);
    advance();
    Node node = disjunction();
    close();
    return node;
  }
  void close() {
    if (!is_symbol(")")) return fail(fmt::format("expected an operator or `)`, found {}", found()));
    advance();
  }
  Node word() {
    const Token& next = tokens_[at_ + 1];  // a word is never the last token
    if (next.kind == Token::Kind::kSymbol && next.text == "(") return call();
    Node node{.kind = Node::Kind::kName, .name = std::string(token().text)};
    names_.insert(node.name);
    advance();
    return node;
  }
  Node call() {
    Node node{.kind = Node::Kind::kCall, .name = std::string(token().text)};
    const auto* function = std::ranges::find(kFunctions, node.name, &ConstraintFunction::name);
    if (function == kFunctions.end()) {
      fail(fmt::format("unknown function {}; there are min, max, abs, log, log2, exp, sqrt, floor, ceil",
                       node.name));
      return node;
    }
    const std::size_t name_at = at_;
    const Deeper deeper(*this);
    advance();
    do {
      advance();  // over the parenthesis or comma
      node.parts.push_back(disjunction());
    } while (is_symbol(","));
    close();
    const bool fits = function->of == nullptr ? node.parts.size() >= 2 : node.parts.size() == 1;
    if (!fits && !error_) {
      at_ = name_at;
      fail(fmt::format("{} takes {}", node.name,
                       function->of == nullptr ? "two or more values" : "one value"));
    }
    return node;
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  std::set<std::string>& names_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::optional<Error> error_;
};

// ---- Values. A value is nullopt if an operation has no result. ----

std::optional<Value> result_of(const Node& node, const Point& point);

// As in Python, true counts as 1 and false as 0.
std::optional<double> operand_number(const std::optional<Value>& value) {
  if (!value) return std::nullopt;
  if (const auto* truth = std::get_if<bool>(&*value)) return *truth ? 1 : 0;
  if (const auto* whole = std::get_if<std::int64_t>(&*value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&*value)) return *real;
  return std::nullopt;
}

bool is_truthy(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? !text->empty() : operand_number(value) != 0.0;
}

// Returns nullopt for infinities and NaN. Python raises an error in these cases: a division by 0, log(0),
// sqrt(-1).
std::optional<Value> if_finite(double number) {
  return std::isfinite(number) ? std::optional<Value>(number) : std::nullopt;
}

// The result has the sign of `right`, as in Python. So -1 % 3 is 2.
double modulo(double left, double right) {
  const double rest = std::fmod(left, right);
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

std::optional<Value> folded(const Node& node, const Point& point) {
  std::optional<Value> result = result_of(node.parts[0], point);
  for (std::size_t i = 0; i < node.symbols.size(); ++i) {
    const auto left = operand_number(result);
    const auto right = operand_number(result_of(node.parts[i + 1], point));
    if (!left || !right) return std::nullopt;
    const std::string_view symbol = node.symbols[i];
    const double number = symbol == "+"   ? *left + *right
                          : symbol == "-" ? *left - *right
                          : symbol == "*" ? *left * *right
                          : symbol == "/" ? *left / *right
                          : symbol == "%" ? modulo(*left, *right)
                                          : std::pow(*left, *right);
    result = if_finite(number);
  }
  return result;
}

bool follows(std::partial_ordering order, std::string_view symbol) {
  if (symbol == "<") return order < 0;
  if (symbol == "<=") return order <= 0;
  if (symbol == ">") return order > 0;
  if (symbol == ">=") return order >= 0;
  return symbol == "==" ? order == 0 : order != 0;
}

// No text equals a number. No text is below or above a number either.
std::optional<bool> operands_compared(const Value& left, std::string_view symbol, const Value& right) {
  const auto* text = std::get_if<std::string>(&left);
  const auto* other_text = std::get_if<std::string>(&right);
  if (text != nullptr && other_text != nullptr) return follows(*text <=> *other_text, symbol);
  if (text == nullptr && other_text == nullptr)
    return follows(*operand_number(left) <=> *operand_number(right), symbol);
  if (symbol == "==" || symbol == "!=") return symbol == "!=";
  return std::nullopt;
}

// As in Python, `a < b < c` means `a < b and b < c`. After a comparison that is false, the rest is not
// evaluated.
std::optional<Value> chain_compared(const Node& node, const Point& point) {
  std::optional<Value> left = result_of(node.parts[0], point);
  for (std::size_t i = 0; i < node.symbols.size(); ++i) {
    if (!left) return std::nullopt;
    std::optional<Value> right = result_of(node.parts[i + 1], point);
    if (!right) return std::nullopt;
    const auto holds = operands_compared(*left, node.symbols[i], *right);
    if (!holds) return std::nullopt;
    if (!*holds) return false;
    left = std::move(right);
  }
  return true;
}

// As in Python, the result of `and` and `or` is the part that decides. So `units or 4` is units, unless units
// is 0.
std::optional<Value> decided(const Node& node, const Point& point) {
  std::optional<Value> result;
  for (const Node& part : node.parts) {
    result = result_of(part, point);
    if (!result || is_truthy(*result) == (node.kind == Node::Kind::kOr)) return result;
  }
  return result;
}

std::optional<Value> called(const Node& node, const Point& point) {
  std::vector<double> numbers;
  for (const Node& part : node.parts) {
    const auto number = operand_number(result_of(part, point));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (node.name == "min") return std::ranges::min(numbers);
  if (node.name == "max") return std::ranges::max(numbers);
  return if_finite(std::ranges::find(kFunctions, node.name, &ConstraintFunction::name)->of(numbers[0]));
}

std::optional<Value> result_of(const Node& node, const Point& point) {
  switch (node.kind) {
    case Node::Kind::kValue: return node.value;
    case Node::Kind::kName: {
      const Value& value = point.at(node.name);  // None is a word here
      return std::holds_alternative<std::monostate>(value) ? Value(text_of(value)) : value;
    }
    case Node::Kind::kOr:
    case Node::Kind::kAnd: return decided(node, point);
    case Node::Kind::kCompare: return chain_compared(node, point);
    case Node::Kind::kFold: return folded(node, point);
    case Node::Kind::kCall: return called(node, point);
    case Node::Kind::kNot: {
      const auto value = result_of(node.parts[0], point);
      return value ? std::optional<Value>(!is_truthy(*value)) : std::nullopt;
    }
    case Node::Kind::kSign: {
      const auto number = operand_number(result_of(node.parts[0], point));
      if (!number) return std::nullopt;
      return node.symbols[0] == "-" ? -*number : *number;
    }
  }
  return std::nullopt;
}

}  // namespace

bool Constraint::is_reserved(std::string_view word) {
  return std::ranges::find(kReserved, word) != kReserved.end();
}

Expected<Constraint> Constraint::parse(std::string text) {
  if (!is_utf8(text)) return unreadable(text, 0, "the text is not UTF-8");
  Constraint constraint;
  constraint.text_ = std::move(text);
  auto tokens = tokens_of(constraint.text_);
  if (!tokens) return std::unexpected(std::move(tokens).error());
  auto root = Parser(constraint.text_, *std::move(tokens), constraint.names_).all();
  if (!root) return std::unexpected(std::move(root).error());
  constraint.root_ = std::make_shared<const Node>(*std::move(root));
  return constraint;
}

std::optional<bool> Constraint::holds(const Point& point) const {
  if (!std::ranges::all_of(names_, [&](const std::string& name) { return point.contains(name); })) {
    return std::nullopt;
  }
  const auto result = result_of(*root_, point);
  return result ? std::optional<bool>(is_truthy(*result)) : std::nullopt;
}

}  // namespace muster::launcher::sweep
