//===- Report.cpp - errors as lines of text -------------------------------===//
//
// One line per cause. Nodes that lack the same feature share a line, which
// names the first of them; a note names the others.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Import.h"

#include "Names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using onnx_import::printable;

int ImportReport::exitCode() const {
  int code = unsupported.empty() ? 0 : 3;
  for (const ImportIssue &issue : issues)
    code = std::max(code, issue.kind == ImportIssue::Kind::Usage     ? 2
                          : issue.kind == ImportIssue::Kind::Refused ? 3
                                                                     : 70);
  return code;
}

void ImportReport::print(llvm::raw_ostream &stream) const {
  for (const ImportIssue &issue : issues) {
    stream << "error: " << printable(file);
    if (!issue.node.empty())
      stream << ":" << printable(issue.node);
    stream << ": " << printable(issue.message) << "\n";
    for (const std::string &note : issue.notes)
      stream << "note: " << printable(note) << "\n";
  }
  for (const UnsupportedItem &item : unsupported) {
    stream << "error: " << printable(file) << ":"
           << printable(item.nodes.front()) << ": " << printable(item.what)
           << " is not supported\n";
    if (item.nodes.size() > 1) {
      stream << "note: needed by " << item.nodes.size() << " nodes: ";
      llvm::interleaveComma(item.nodes, stream, [&](const std::string &node) {
        stream << printable(node);
      });
      stream << "\n";
    }
  }
}
