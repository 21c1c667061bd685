//===- WrapLines.h - printed IR in lines that fit -----------------*- C++
//-*-===//
#ifndef KERF_SUPPORT_WRAPLINES_H
#define KERF_SUPPORT_WRAPLINES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace kerf {

/// Writes printed IR, its lines broken so that each has at most `columns`
/// bytes, what goes on indented by four more. A line is broken where the
/// nesting of its brackets is least, behind a comma or before a type, `->` or
/// `{` if there is such a place; never within a string or a comment. A word
/// that is longer stays whole. To the parser the text is the same: it reads a
/// new line as a space. O(length of the text).
void writeWrapped(llvm::raw_ostream &stream, llvm::StringRef ir,
                  size_t columns);

} // namespace kerf

#endif // KERF_SUPPORT_WRAPLINES_H
