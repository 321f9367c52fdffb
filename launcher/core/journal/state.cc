#include "launcher/core/journal/state.h"

#include <boost/pfr.hpp>
#include <concepts>
#include <ranges>
#include <sstream>
#include <stdexcept>

#include "common/wire/json.h"
#include "common/wire/json_types.h"
#include "launcher/core/journal/reflection.h"

namespace muster::launcher {

using nlohmann::json;

namespace {

template <class Value>
concept Leaf = std::is_arithmetic_v<Value> || std::is_enum_v<Value> || std::same_as<Value, std::string> ||
               std::same_as<Value, Duration> || std::same_as<Value, TimePoint>;
template <class Value>
concept Optional = requires(Value value) {
  value.has_value();
  value.reset();
};
template <class Value>
concept Range = std::ranges::range<Value> && !std::same_as<Value, std::string>;

template <class Value>
struct IsId : std::false_type {};
template <class Tag, class Number>
struct IsId<Id<Tag, Number>> : std::true_type {};
template <class Value>
struct IsPair : std::false_type {};
template <class First, class Second>
struct IsPair<std::pair<First, Second>> : std::true_type {};

class Writer {
 public:
  template <class... Fields>
  void operator()(const Fields&... fields) {
    (out_.push_back(write(fields)), ...);
  }
  template <class Value>
  static json write(const Value& value) {
    if constexpr (Leaf<Value> || IsId<Value>::value) {
      return value;
    } else if constexpr (std::same_as<Value, std::mt19937_64>) {
      std::ostringstream text;
      text << value;
      return text.str();
    } else if constexpr (Optional<Value>) {
      return value ? json::array({write(*value)}) : json(nullptr);
    } else if constexpr (IsPair<Value>::value) {
      return json::array({write(value.first), write(value.second)});
    } else if constexpr (Range<Value>) {
      json all = json::array();
      for (const auto& each : value) all.push_back(write(each));
      return all;
    } else {
      Writer parts;
      // fields() is not const, because it is also used for reading. Writing does not change the value.
      if constexpr (requires { const_cast<Value&>(value).fields(parts); }) {
        const_cast<Value&>(value).fields(parts);
      } else {
        boost::pfr::for_each_field(value, [&parts](const auto& field) { parts(field); });
      }
      return std::move(parts.out_);
    }
  }

 private:
  json out_ = json::array();
};

class Reader {
 public:
  explicit Reader(const json& in) : in_(in) {}
  template <class... Fields>
  void operator()(Fields&... fields) {
    (read(in_.at(next_++), fields), ...);
  }
  template <class Value>
  static void read(const json& in, Value& value) {
    if constexpr (std::is_enum_v<Value>) {
      value = static_cast<Value>(enumerator(in, name_of_type<Value>(), enumerator_count<Value>()));
    } else if constexpr (IsId<Value>::value) {
      value = Value(whole_number<decltype(value.value())>(in));
    } else if constexpr (std::integral<Value> && !std::same_as<Value, bool>) {
      value = whole_number<Value>(in);
    } else if constexpr (Leaf<Value>) {
      in.get_to(value);
    } else if constexpr (std::same_as<Value, std::mt19937_64>) {
      std::istringstream text(in.get<std::string>());
      if (!(text >> value)) throw std::invalid_argument("not the state of a random generator");
    } else if constexpr (Optional<Value>) {
      value.reset();
      if (in.is_null()) return;
      typename Value::value_type fresh{};
      read(in.at(0), fresh);
      value = std::move(fresh);
    } else if constexpr (Range<Value>) {
      value.clear();
      for (const json& each : in) value.insert(value.end(), read_element<Value>(each));
    } else if constexpr (requires(Reader parts) { value.fields(parts); }) {
      Reader parts(in);
      value.fields(parts);
      parts.end(name_of_type<Value>());
      if constexpr (requires { value.restored(); }) {
        if (!value.restored())
          throw std::out_of_range(fmt::format("a {} cannot have these fields", name_of_type<Value>()));
      }
    } else {
      Reader parts(in);
      boost::pfr::for_each_field(value, [&parts](auto& field) { parts(field); });
      parts.end(name_of_type<Value>());
    }
  }

 private:
  void end(std::string_view name) const {
    if (next_ != in_.size())
      throw std::out_of_range(fmt::format("{} has {} fields, not {}", name, next_, in_.size()));
  }
  static int enumerator(const json& in, std::string_view name, int count) {
    const int number = whole_number<int>(in);
    if (number < 0 || number >= count) throw std::out_of_range(fmt::format("{} is not a {}", number, name));
    return number;
  }
  // Reads an element of a container. For a map, the key of the returned pair is not const.
  template <class Container>
  static auto read_element(const json& in) {
    using Element = std::ranges::range_value_t<Container>;
    if constexpr (IsPair<Element>::value) {
      std::pair<std::remove_const_t<typename Element::first_type>, typename Element::second_type> both;
      read(in.at(0), both.first);
      read(in.at(1), both.second);
      return both;
    } else {
      Element element{};
      read(in, element);
      return element;
    }
  }

  const json& in_;
  std::size_t next_ = 0;
};

}  // namespace

json state_of(const Controller& controller) {
  return Writer::write(controller);
}

Status restore(Controller& controller, const json& state) {
  try {
    Reader::read(state, controller);
    return {};
  } catch (const std::exception& error) {
    return failure(ErrorCode::kCorrupt, "a state of another version, or a damaged one: {}", error.what());
  }
}

}  // namespace muster::launcher
