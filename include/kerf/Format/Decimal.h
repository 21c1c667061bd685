//===- Decimal.h - what counts as a number in flags -------------*- C++ -*-===//
#ifndef KERF_FORMAT_DECIMAL_H
#define KERF_FORMAT_DECIMAL_H

#include <string_view>

namespace kerf {

/// Whether `text` is a whole decimal number: 3, -0.5, .5, 1e-3. Functions that
/// convert text take more: 0x10, inf, and `3e`, which somebody has not
/// finished.
constexpr bool isDecimal(std::string_view text) {
  size_t at = 0;
  auto digits = [&] {
    size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9')
      ++at;
    return at - begin;
  };
  auto take = [&](char a, char b) {
    bool isThere = at < text.size() && (text[at] == a || text[at] == b);
    at += isThere ? 1 : 0;
    return isThere;
  };
  take('+', '-');
  size_t count = digits();
  if (take('.', '.'))
    count += digits();
  if (count == 0)
    return false;
  if (take('e', 'E')) {
    take('+', '-');
    if (digits() == 0)
      return false;
  }
  return at == text.size();
}

} // namespace kerf

#endif // KERF_FORMAT_DECIMAL_H
