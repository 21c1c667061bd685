//===- SpellFlags.h - options of libraries, as flags ------------*- C++ -*-===//
//
// The compiler's libraries and the runtime name what can be set as `option
// mesh=NAME`, which is what whoever embeds them has; on a command line it is a
// flag.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_SPELLFLAGS_H
#define KERF_TOOLS_SPELLFLAGS_H

#include "kerf/rt/printable.h"

#include <regex>
#include <string>

namespace kerf::tool {

inline std::string spellFlags(const std::string &text) {
  static const std::regex output("\\boption output\\b(?![-=])");
  static const std::regex option("\\boption ([a-z][a-z-]*)");
  return std::regex_replace(std::regex_replace(text, output, "-o"), option,
                            "--$1");
}

/// What the runtime says, on stderr in words of the command line.
inline rt::Messages onStderr() { return {stderr, spellFlags}; }

} // namespace kerf::tool

#endif // KERF_TOOLS_SPELLFLAGS_H
