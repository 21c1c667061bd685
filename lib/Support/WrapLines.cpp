//===- WrapLines.cpp ------------------------------------------------------===//
#include "kerf/Support/WrapLines.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <tuple>

using namespace kerf;
using llvm::StringRef;

namespace {
/// A space at which a line may be broken.
struct Space {
  size_t at;
  /// How many brackets are open there.
  int depth;
  /// Behind a comma, or before what begins a part of its own.
  bool separates;
};
} // namespace

static bool beginsPart(StringRef rest) {
  return rest.starts_with(":") || rest.starts_with("->") ||
         rest.starts_with("{") || rest.starts_with("loc(");
}

/// The spaces outside of strings, behind the indentation and before a comment.
static llvm::SmallVector<Space> findSpaces(StringRef line) {
  llvm::SmallVector<Space> spaces;
  int depth = 0;
  bool quoted = false;
  for (size_t i = line.find_first_not_of(' '); i < line.size(); ++i) {
    char c = line[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      quoted = c != '"';
      continue;
    }
    if (line.substr(i).starts_with("//"))
      break;
    if (c == '"')
      quoted = true;
    else if (StringRef("([{<").contains(c))
      ++depth;
    else if (StringRef(")]}").contains(c) || (c == '>' && line[i - 1] != '-'))
      --depth;
    else if (c == ' ')
      spaces.push_back(
          {i, depth, line[i - 1] == ',' || beginsPart(line.substr(i + 1))});
  }
  return spaces;
}

/// Where to break [begin, ...): of the spaces up to `limit`, the last of those
/// that separate at the least depth, behind the line's first third if there is
/// one; else the first space behind `limit`.
static const Space *choose(llvm::ArrayRef<Space> spaces, size_t begin,
                           size_t limit) {
  const Space *best = nullptr;
  auto rank = [&](const Space &space) {
    return std::make_tuple(space.at >= begin + (limit - begin) / 3,
                           space.separates, -space.depth, space.at);
  };
  for (const Space &space : spaces) {
    if (space.at <= begin)
      continue;
    if (space.at > limit)
      return best ? best : &space;
    if (!best || rank(*best) < rank(space))
      best = &space;
  }
  return best;
}

static void writeLine(llvm::raw_ostream &stream, StringRef line,
                      size_t columns) {
  if (line.size() <= columns) {
    stream << line;
    return;
  }
  llvm::SmallVector<Space> all = findSpaces(line);
  llvm::ArrayRef<Space> spaces = all;
  size_t indent = std::min(line.find_first_not_of(' '), line.size()) + 4;
  size_t begin = 0, used = 0;
  while (line.size() - begin + used > columns) {
    const Space *space = choose(spaces, begin, begin + columns - used);
    if (!space)
      break;
    stream << line.slice(begin, space->at) << '\n';
    stream.indent(indent);
    begin = space->at + 1;
    used = indent;
    spaces = spaces.drop_front(space - spaces.begin() + 1);
  }
  stream << line.substr(begin);
}

void kerf::writeWrapped(llvm::raw_ostream &stream, StringRef ir,
                        size_t columns) {
  while (!ir.empty()) {
    auto [line, rest] = ir.split('\n');
    writeLine(stream, line, columns);
    if (line.size() < ir.size())
      stream << '\n';
    ir = rest;
  }
}
