//===- JsonReader.h - located, checked access to JSON -----------*- C++ -*-===//
//
// A cursor on a JSON value that knows its path, so that every error says where:
// "manifest.json: collectives[3].axes[0].size: expected an integer in [1, 4]".
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_PACKAGE_JSONREADER_H
#define KERF_RUNTIME_PACKAGE_JSONREADER_H

#include "../base/Types.h"

#include <nlohmann/json.hpp>

#include <string>
#include <unordered_set>

namespace kerf::rt {

class JsonReader {
public:
  using json = nlohmann::json;
  static constexpr int64_t maxInteger = int64_t(1) << 53;

  /// Members that a parser has asked for; the others it does not know.
  using Members = std::unordered_set<const json *>;

  JsonReader(const json &value, std::string path, Members *asked = nullptr)
      : value(value), path(std::move(path)), asked(asked) {}

  const std::string &where() const { return path; }
  const json &raw() const { return value; }
  [[noreturn]] void fail(const std::string &reason) const {
    throw Error(KERF_BAD_PACKAGE,
                path + (path.back() == ' ' ? "" : ": ") + reason);
  }

  /// A member that is null counts as missing.
  bool has(const char *key) const {
    if (!value.is_object() || !value.contains(key))
      return false;
    if (asked)
      asked->insert(&value[key]);
    return !value[key].is_null();
  }
  JsonReader operator[](const char *key) const {
    if (!value.is_object())
      fail("expected an object");
    if (!has(key))
      fail(std::string("missing \"") + key + "\"");
    return JsonReader(value[key], pathOf(key), asked);
  }
  JsonReader operator[](size_t index) const {
    return JsonReader(value[index], path + "[" + std::to_string(index) + "]",
                      asked);
  }
  size_t size() const {
    if (!value.is_array())
      fail("expected an array");
    return value.size();
  }

  int64_t integer(int64_t low, int64_t high) const {
    bool fits = value.is_number_integer() &&
                !(value.is_number_unsigned() &&
                  value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
    if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high)
      fail(
          cat("expected an integer in [", low, ", ", high, "], got ", shown()));
    return value.get<int64_t>();
  }
  int64_t size64() const { return integer(0, maxInteger); }
  double number() const {
    if (!value.is_number())
      fail("expected a number, got " + shown());
    return value.get<double>();
  }
  std::string string() const {
    if (!value.is_string())
      fail("expected a string, got " + shown());
    return value.get<std::string>();
  }
  /// A name without a path.
  std::string fileName() const {
    std::string name = string();
    if (name.empty() || name == "." || name == ".." ||
        name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
      fail("expected a plain file name");
    return name;
  }
  bool boolean() const {
    if (!value.is_boolean())
      fail("expected true or false, got " + shown());
    return value.get<bool>();
  }
  std::string stringOr(const char *key, std::string otherwise) const {
    return has(key) ? (*this)[key].string() : otherwise;
  }
  int64_t integerOr(const char *key, int64_t low, int64_t high,
                    int64_t otherwise) const {
    return has(key) ? (*this)[key].integer(low, high) : otherwise;
  }
  double numberOr(const char *key, double otherwise) const {
    return has(key) ? (*this)[key].number() : otherwise;
  }

  Shape shape() const {
    Shape result(size());
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = (*this)[i].size64();
    return result;
  }
  kerf_dtype_t dtype() const {
    kerf_dtype_t result;
    if (!parseDType(string(), result))
      fail("unknown data type \"" + string() + "\"");
    return result;
  }
  /// Runs `body`, putting this path before the message of its errors.
  template <typename Body> auto located(Body &&body) const {
    try {
      return body();
    } catch (const Error &error) {
      fail(error.message);
    }
  }
  /// One T per element of the array at `key` (none if it is missing).
  template <typename T, typename Parse>
  std::vector<T> list(const char *key, Parse &&parse) const {
    std::vector<T> result;
    if (has(key)) {
      JsonReader array = (*this)[key];
      result.reserve(array.size());
      for (size_t i = 0, n = array.size(); i < n; ++i)
        result.push_back(parse(array[i]));
    }
    return result;
  }

  /// Fails at the first member, here or below, that nobody has asked for.
  /// `levels`: more than any format has, less than a stack holds.
  void refuseUnknown(int levels = 32) const {
    if (levels == 0)
      fail("is nested too deep");
    if (value.is_array())
      for (size_t i = 0; i < value.size(); ++i)
        if (value[i].is_structured())
          (*this)[i].refuseUnknown(levels - 1);
    if (!value.is_object())
      return;
    for (const auto &[key, member] : value.items()) {
      if (!asked->count(&member))
        fail("unknown key \"" + key + "\"");
      if (member.is_structured())
        JsonReader(member, pathOf(key), asked).refuseUnknown(levels - 1);
    }
  }

private:
  std::string pathOf(const std::string &key) const {
    return path + (path.back() == ' ' ? "" : ".") + key;
  }
  std::string shown() const {
    if (value.is_structured())
      return value.is_array() ? "an array" : "an object";
    std::string text =
        value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() > 60 ? text.substr(0, 60) + "..." : text;
  }

  const json &value;
  std::string path;
  Members *asked;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_JSONREADER_H
