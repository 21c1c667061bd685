//===- Report.cpp - what went wrong, in lines -----------------------------===//
//
// One line per cause. Nodes that lack the same thing stand in one line, the
// first of them as its place and the others as a note.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Import.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;

int ImportReport::exitCode() const {
  int code = unsupported.empty() ? 0 : 3;
  for (const ImportIssue &issue : issues)
    code = std::max(code, issue.kind == ImportIssue::Kind::Usage     ? 2
                          : issue.kind == ImportIssue::Kind::Refused ? 3
                                                                     : 70);
  return code;
}

/// Names come from the file: control characters must not reach a terminal.
static std::string printable(llvm::StringRef text) {
  std::string result;
  for (char c : text)
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result;
}

void ImportReport::print(llvm::raw_ostream &stream) const {
  for (const ImportIssue &issue : issues) {
    stream << "error: " << file;
    if (!issue.node.empty())
      stream << ":" << printable(issue.node);
    stream << ": " << printable(issue.message) << "\n";
    for (const std::string &note : issue.notes)
      stream << "note: " << printable(note) << "\n";
  }
  for (const UnsupportedItem &item : unsupported) {
    stream << "error: " << file << ":" << printable(item.nodes.front()) << ": "
           << printable(item.what) << " is not supported\n";
    if (item.nodes.size() > 1) {
      stream << "note: needed by " << item.nodes.size() << " nodes: ";
      llvm::interleaveComma(item.nodes, stream, [&](const std::string &node) {
        stream << printable(node);
      });
      stream << "\n";
    }
  }
}
