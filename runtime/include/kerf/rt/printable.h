//===- printable.h - text of others on a terminal ---------------*- C++ -*-===//
//
// Names in a damaged file can hold escape sequences, which a terminal obeys,
// and bytes that are not UTF-8, which programs that read messages reject. So
// all output goes through these functions.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_PRINTABLE_H
#define KERF_RT_PRINTABLE_H

#include <cstdio>
#include <string>

namespace kerf::rt {

/// `text` with the bytes of characters that are not printable as \xNN: bytes
/// that are not UTF-8, control characters (of 7 and 8 bits), and characters
/// that change the direction of text or end a line. All others stay; with
/// `lines`, so do line feeds and tabulators.
std::string printable(const std::string &text, bool lines = false);

/// The number of bytes at the end of `text` that begin an incomplete character:
/// for text that arrives in pieces.
size_t unfinishedBytes(const std::string &text);

/// `note: TEXT` as a line, printable; a text that begins with "warning: " is
/// one by itself.
std::string noteLine(const std::string &text);

/// Writes lines of text, printable.
void say(std::FILE *file, const std::string &lines);

/// Where errors, notes and progress of a run go. The runtime names an option of
/// a run as `option repeat`; who has another word for it, a flag of a command,
/// puts that in its place.
struct Messages {
  using Spelling = std::string (*)(const std::string &text);
  Messages(std::FILE *file, Spelling spell = nullptr)
      : file(file), spell(spell) {}
  std::FILE *file;
  Spelling spell;
};
void say(const Messages &messages, const std::string &lines);

} // namespace kerf::rt

#endif // KERF_RT_PRINTABLE_H
