//===- Report.cpp - errors as lines of text -------------------------------===//
//
// One line per cause. Nodes that lack the same feature share a line, which
// names the first of them; a note names the others.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Import.h"

#include "Graph/Names.h"
#include "Importer.h"

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

/// Of the nodes behind the first, how many there are, and a few names.
static void printRest(llvm::raw_ostream &stream,
                      llvm::ArrayRef<llvm::StringRef> nodes) {
  constexpr size_t kMax = 4;
  llvm::ArrayRef<llvm::StringRef> rest = nodes.drop_front();
  stream << "the same of " << rest.size() << " more: ";
  llvm::interleaveComma(
      rest.take_front(kMax), stream,
      [&](llvm::StringRef node) { stream << printable(node.str()); });
  stream << (rest.size() > kMax ? ", ..." : "");
}

/// Prints how many more nodes have an issue of the same cause.
static void printOthers(llvm::raw_ostream &stream,
                        llvm::ArrayRef<llvm::StringRef> nodes) {
  if (nodes.size() < 2)
    return;
  stream << "note: ";
  printRest(stream, nodes);
  stream << "\n";
}

std::string
onnx_import::noteOnMeansOfNothing(llvm::ArrayRef<std::string> nodes) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << nodes.front()
         << ": the mean of nothing is NaN, where some runtimes give 0";
  if (nodes.size() > 1) {
    stream << "; ";
    printRest(stream, llvm::SmallVector<llvm::StringRef>(nodes));
  }
  return text;
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
