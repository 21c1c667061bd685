//===- printable.h - text of others on a terminal ---------------*- C++ -*-===//
//
// Names of a damaged file can hold escape sequences, which a terminal obeys,
// and bytes that are no UTF-8, which programs that read messages refuse. So
// whatever is printed goes through here.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_PRINTABLE_H
#define KERF_RT_PRINTABLE_H

#include <cstdio>
#include <string>

namespace kerf::rt {

/// `text` with the bytes of what is not printable as \xNN: bytes that are no
/// UTF-8, control characters (of 7 and of 8 bits), and those that change the
/// direction of text or end a line elsewhere. All other characters stay.
/// `lines`: so do line feeds and tabulators.
std::string printable(const std::string &text, bool lines = false);

/// How many bytes at the end of `text` begin a character that is not whole: for
/// text that comes in pieces.
size_t unfinishedBytes(const std::string &text);

/// Writes lines of text, printable.
void say(std::FILE *file, const std::string &lines);

} // namespace kerf::rt

#endif // KERF_RT_PRINTABLE_H
