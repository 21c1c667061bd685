//===- Printable.cpp - text of others on a terminal -----------------------===//
#include "kerf/rt/printable.h"

#include <algorithm>
#include <cstdint>

using namespace kerf::rt;

/// Bytes that a character which begins so has; 0 for none.
static size_t lengthOf(unsigned char first) {
  return first < 0x80                     ? 1
         : first >= 0xc2 && first <= 0xdf ? 2
         : first >= 0xe0 && first <= 0xef ? 3
         : first >= 0xf0 && first <= 0xf4 ? 4
                                          : 0;
}

/// The bytes of the character at `at` and its number; 0 bytes if there is none.
static size_t decode(const std::string &text, size_t at, uint32_t &number) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = lengthOf(byte(at));
  if (length == 0 || length > text.size() - at)
    return 0;
  if (length == 1) {
    number = byte(at);
    return 1;
  }
  number = byte(at) & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80)
      return 0;
    number = number << 6 | (byte(at + i) & 0x3f);
  }
  // Overlong forms, halves of surrogate pairs, and codes past the last
  // character.
  bool isLegal = number >= (length == 2   ? 0x80u
                            : length == 3 ? 0x800u
                                          : 0x10000u) &&
                 !(number >= 0xd800 && number <= 0xdfff) && number <= 0x10ffff;
  return isLegal ? length : 0;
}

static bool isPrintable(uint32_t c) {
  return !(c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e ||
           c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xfeff ||
           (c & 0xfffe) == 0xfffe);
}

std::string kerf::rt::printable(const std::string &text, bool lines) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (size_t at = 0; at < text.size();) {
    uint32_t number = 0;
    size_t length = decode(text, at, number);
    bool stays = length > 0 && (isPrintable(number) ||
                                (lines && (number == '\n' || number == '\t')));
    length = std::max<size_t>(length, 1);
    if (stays)
      result.append(text, at, length);
    else
      for (size_t i = at; i < at + length; ++i) {
        auto byte = static_cast<unsigned char>(text[i]);
        result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
      }
    at += length;
  }
  return result;
}

size_t kerf::rt::unfinishedBytes(const std::string &text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) != 0x80)
      return lengthOf(byte) > back ? back : 0;
  }
  return 0;
}

std::string kerf::rt::noteLine(const std::string &text) {
  return (text.rfind("warning: ", 0) == 0 ? "" : "note: ") + printable(text) +
         "\n";
}

void kerf::rt::say(const Messages &messages, const std::string &lines) {
  say(messages.file, messages.spell ? messages.spell(lines) : lines);
}

void kerf::rt::say(std::FILE *file, const std::string &lines) {
  std::string text = printable(lines, /*lines=*/true);
  std::fwrite(text.data(), 1, text.size(), file);
}
