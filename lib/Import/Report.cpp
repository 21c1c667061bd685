//===- Report.cpp - errors as lines of text -------------------------------===//
//
// One line per cause. Nodes that lack the same feature share a line, which
// names the first of them; a note names the others.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Import.h"

#include "Graph/Names.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using onnx_import::printable;

int ImportReport::exitCode() const {
  int code = unsupported.empty() ? 0 : 3;
  for (const ImportIssue &issue : issues)
    code = std::max(code, issue.kind == ImportIssue::Kind::Usage ||
                                  issue.kind == ImportIssue::Kind::OpenSize
                              ? 2
                          : issue.kind == ImportIssue::Kind::Refused ? 3
                                                                     : 70);
  return code;
}

/// Prints how many more nodes have an issue of the same cause, and a few names.
static void printOthers(llvm::raw_ostream &stream,
                        llvm::ArrayRef<llvm::StringRef> nodes) {
  constexpr size_t kMax = 4;
  if (nodes.size() < 2)
    return;
  llvm::ArrayRef<llvm::StringRef> rest = nodes.drop_front();
  stream << "note: the same of " << rest.size() << " more: ";
  llvm::interleaveComma(
      rest.take_front(kMax), stream,
      [&](llvm::StringRef node) { stream << printable(node.str()); });
  stream << (rest.size() > kMax ? ", ...\n" : "\n");
}

void ImportReport::print(llvm::raw_ostream &stream) const {
  llvm::MapVector<llvm::StringRef, llvm::SmallVector<llvm::StringRef>> others;
  for (const ImportIssue &issue : issues)
    if (!issue.cause.empty())
      others[issue.cause].push_back(issue.node);
  llvm::StringSet<> said;
  for (const ImportIssue &issue : issues) {
    if (!issue.cause.empty() && !said.insert(issue.cause).second)
      continue;
    stream << "error: " << printable(file);
    if (!issue.node.empty())
      stream << ":" << printable(issue.node);
    stream << ": " << printable(issue.message) << "\n";
    for (const std::string &note : issue.notes)
      stream << "note: " << printable(note) << "\n";
    printOthers(stream, others.lookup(issue.cause));
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
    if (!item.form.empty())
      stream << "note: " << item.form << "\n";
  }
}
