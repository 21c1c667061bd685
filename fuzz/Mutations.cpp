//===- Mutations.cpp - damaged files, by rule and number ------------------===//
//
// See Mutations.h. Of protobuf only the wire format is known: a field whose
// bytes parse as fields may be a message, and then it is entered half the time.
//
//===----------------------------------------------------------------------===//
#include "Mutations.h"

#include <algorithm>
#include <cctype>
#include <cstring>

using namespace kerf::fuzz;
using Bytes = std::vector<uint8_t>;

namespace {

constexpr uint64_t numbers[] = {0,
                                1,
                                2,
                                3,
                                7,
                                8,
                                127,
                                128,
                                255,
                                256,
                                65535,
                                65536,
                                0x7fffffff,
                                0x80000000,
                                0xffffffff,
                                0x100000000,
                                uint64_t(1) << 40,
                                uint64_t(1) << 53,
                                (uint64_t(1) << 62) + 1,
                                0x7fffffffffffffff,
                                0x8000000000000000,
                                0xfffffffffffffffe,
                                0xffffffffffffffff};

uint64_t pickNumber(Random &random) {
  return random.below(4) == 0 ? random.next() >> random.below(64)
                              : numbers[random.below(std::size(numbers))];
}

void replace(Bytes &bytes, size_t begin, size_t end, const Bytes &by) {
  Bytes result(bytes.begin(), bytes.begin() + begin);
  result.insert(result.end(), by.begin(), by.end());
  result.insert(result.end(), bytes.begin() + end, bytes.end());
  bytes = std::move(result);
}

void mutateBinary(Bytes &bytes, Random &random) {
  size_t at = random.below(bytes.size());
  size_t count = std::min<size_t>(1 + random.below(16), bytes.size() - at);
  switch (bytes.empty() ? 3 : random.below(7)) {
  case 0:
    bytes[at] ^= uint8_t(1) << random.below(8);
    return;
  case 1:
    bytes[at] = static_cast<uint8_t>(random.next());
    return;
  case 2: { // a number of 1, 2, 4 or 8 bytes
    uint64_t number = pickNumber(random);
    size_t width = std::min(size_t(1) << random.below(4), bytes.size() - at);
    std::memcpy(bytes.data() + at, &number, width);
    return;
  }
  case 3: {
    Bytes more(1 + random.below(8));
    for (uint8_t &byte : more)
      byte = static_cast<uint8_t>(random.next());
    return replace(bytes, at, at, more);
  }
  case 4:
    return replace(bytes, at, at + count, {});
  case 5: { // a piece again, elsewhere
    Bytes piece(bytes.begin() + at, bytes.begin() + at + count);
    size_t where = random.below(bytes.size());
    return replace(bytes, where, where, piece);
  }
  default:
    bytes.resize(at);
  }
}

/// A token of JSON: a string, a number or word, or one mark.
struct Token {
  size_t begin, end;
};

std::vector<Token> tokensOf(const Bytes &text) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        at += text[at] == '\\';
      at = std::min(at + 1, text.size());
    } else if (std::isalnum(text[at]) || text[at] == '-') {
      while (at < text.size() &&
             (std::isalnum(text[at]) || std::strchr("+-.", text[at])))
        ++at;
    } else {
      ++at;
      if (std::isspace(text[begin]))
        continue;
    }
    tokens.push_back({begin, at});
  }
  return tokens;
}

/// The tokens from `first` to the end of the value that it begins.
size_t endOfValue(const Bytes &text, const std::vector<Token> &tokens,
                  size_t first) {
  int depth = 0;
  for (size_t i = first; i < tokens.size(); ++i) {
    uint8_t c = text[tokens[i].begin];
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth <= 0)
      return i;
  }
  return first;
}

Bytes bytesOf(const std::string &text) {
  return Bytes(text.begin(), text.end());
}

Bytes otherScalar(const Bytes &text, const std::vector<Token> &tokens,
                  Random &random) {
  static const char *const words[] = {
      "null", "true", "-1",    "1e999",  "-0.5",        "{}", "[]",   "\"\"",
      "1e18", "0.1",  "[[1]]", "[1,-1]", "\"\\u0000\"", "-0", "1e-9", "\"/\""};
  switch (random.below(4)) {
  case 0:
    return bytesOf(words[random.below(std::size(words))]);
  case 1: { // what stands elsewhere
    Token other = tokens[random.below(tokens.size())];
    return Bytes(text.begin() + other.begin, text.begin() + other.end);
  }
  case 2:
    return bytesOf(std::to_string(static_cast<int64_t>(pickNumber(random))));
  default:
    return bytesOf(std::to_string(pickNumber(random)));
  }
}

void mutateJson(Bytes &text, Random &random) {
  std::vector<Token> tokens = tokensOf(text);
  if (tokens.empty() || random.below(16) == 0)
    return mutateBinary(text, random);
  auto isScalar = [&](size_t i) {
    return !std::strchr("[]{},:", text[tokens[i].begin]);
  };
  size_t at = random.below(tokens.size());
  for (size_t tries = 0; tries < 8 && !isScalar(at); ++tries)
    at = random.below(tokens.size());
  Token token = tokens[at];
  switch (random.below(8)) {
  case 0: { // a value, or a member with its name, goes
    size_t last = at;
    if (at + 2 < tokens.size() && text[tokens[at + 1].begin] == ':')
      last = endOfValue(text, tokens, at + 2);
    if (last + 1 < tokens.size() && text[tokens[last + 1].begin] == ',')
      ++last;
    return replace(text, token.begin, tokens[last].end, {});
  }
  case 1: { // a value again
    size_t first = random.below(tokens.size());
    size_t last = endOfValue(text, tokens, first);
    Bytes copy(text.begin() + tokens[first].begin,
               text.begin() + tokens[last].end);
    if (copy.size() > 4096)
      copy.resize(4096);
    copy.insert(copy.begin(), ',');
    return replace(text, tokens[last].end, tokens[last].end, copy);
  }
  case 2: { // one value in the place of another
    size_t from = random.below(tokens.size());
    Token end = tokens[endOfValue(text, tokens, from)];
    Bytes copy(text.begin() + tokens[from].begin, text.begin() + end.end);
    if (copy.size() > 4096)
      copy.resize(4096);
    return replace(text, token.begin, token.end, copy);
  }
  default:
    return replace(text, token.begin, token.end,
                   otherScalar(text, tokens, random));
  }
}

void mutateJsonHeader(Bytes &bytes, Random &random) {
  uint64_t length = 0;
  if (bytes.size() >= 8)
    std::memcpy(&length, bytes.data(), 8);
  if (bytes.size() < 8 || length > bytes.size() - 8 || random.below(8) == 0)
    return mutateBinary(bytes, random);
  Bytes header(bytes.begin() + 8, bytes.begin() + 8 + length);
  mutateJson(header, random);
  replace(bytes, 8, 8 + length, header);
  length = header.size();
  std::memcpy(bytes.data(), &length, 8);
}

void appendVarint(Bytes &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<uint8_t>(value | 0x80));
  out.push_back(static_cast<uint8_t>(value));
}

bool readVarint(const Bytes &bytes, size_t &at, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    uint8_t byte = bytes[at++];
    value |= uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80)
      return true;
  }
  return false;
}

struct Field {
  uint64_t key = 0, value = 0; ///< value of a varint
  Bytes content;               ///< of wire types 1, 2 and 5
  unsigned wire() const { return key & 7; }
};

bool parseFields(const Bytes &bytes, std::vector<Field> &fields) {
  for (size_t at = 0; at < bytes.size();) {
    Field field;
    if (!readVarint(bytes, at, field.key) || field.key < 8)
      return false;
    uint64_t length = field.wire() == 1 ? 8 : 4;
    if (field.wire() == 0) {
      if (!readVarint(bytes, at, field.value))
        return false;
    } else if (field.wire() == 1 || field.wire() == 2 || field.wire() == 5) {
      if (field.wire() == 2 && !readVarint(bytes, at, length))
        return false;
      if (length > bytes.size() - at)
        return false;
      field.content.assign(bytes.begin() + at, bytes.begin() + at + length);
      at += length;
    } else {
      return false;
    }
    fields.push_back(std::move(field));
  }
  return !fields.empty();
}

Bytes serialize(const std::vector<Field> &fields) {
  Bytes out;
  for (const Field &field : fields) {
    appendVarint(out, field.key);
    if (field.wire() == 0)
      appendVarint(out, field.value);
    if (field.wire() == 2)
      appendVarint(out, field.content.size());
    out.insert(out.end(), field.content.begin(), field.content.end());
  }
  return out;
}

void mutateFields(Bytes &bytes, Random &random, int depth) {
  std::vector<Field> fields;
  if (!parseFields(bytes, fields))
    return mutateBinary(bytes, random);
  size_t at = random.below(fields.size());
  Field &field = fields[at];
  std::vector<Field> inner;
  bool isMessage = field.wire() == 2 && parseFields(field.content, inner);
  if (isMessage && depth < 8 && random.below(8) != 0) {
    mutateFields(field.content, random, depth + 1);
  } else {
    switch (random.below(6)) {
    case 0:
      fields.erase(fields.begin() + static_cast<int64_t>(at));
      break;
    case 1:
      fields.push_back(Field(field));
      break;
    case 2:
      std::swap(field, fields[random.below(fields.size())]);
      break;
    case 3:
      field.key = (field.key & 7) | (1 + random.below(30)) << 3;
      break;
    default: // what a field of this message holds, elsewhere or changed
      if (field.wire() == 0)
        field.value = random.below(2) ? pickNumber(random) : random.below(32);
      else if (field.wire() == 2 && random.below(3) == 0)
        field.content = fields[random.below(fields.size())].content;
      else
        mutateBinary(field.content, random);
      if (field.wire() != 2 && field.wire() != 0)
        field.content.resize(field.wire() == 1 ? 8 : 4);
    }
  }
  bytes = serialize(fields);
}

} // namespace

void kerf::fuzz::mutate(std::vector<uint8_t> &bytes, Format format,
                        Random &random) {
  for (size_t i = 0, count = 1 + random.below(3); i < count; ++i) {
    if (format == Format::Json)
      mutateJson(bytes, random);
    else if (format == Format::JsonHeader)
      mutateJsonHeader(bytes, random);
    else if (format == Format::Protobuf && random.below(8) != 0)
      mutateFields(bytes, random, 0);
    else
      mutateBinary(bytes, random);
  }
}
