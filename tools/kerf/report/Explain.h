//===- Explain.h - answers to --explain and --what-if -----------*- C++ -*-===//
#ifndef KERF_TOOLS_EXPLAIN_H
#define KERF_TOOLS_EXPLAIN_H

#include "../Options.h"

#include "kerf/Pipelines/Compilation.h"

#include "llvm/Support/raw_ostream.h"

namespace kerf::tool {

/// What each choice of the op costs, best first, as much as a screen holds:
/// choices of the same figures are one row. `verbose`: each choice.
void printExplanation(llvm::raw_ostream &out, const Compilation &compilation,
                      bool verbose);
/// kerf.explain/1: the same, every choice.
void printExplanationJson(llvm::raw_ostream &out,
                          const Compilation &compilation);

/// Options for a command that needs only shapes, which works without the files
/// of external data.
CompilationOptions shapesAlone(const Options &options);

/// `kerf plan --what-if`: plans as asked and with each set of changes, prints
/// one table. Throws where a change is none that can be made; a plan that
/// cannot be is a row, and exit code 4 if it is the one that was asked for.
int planWhatIf(const Options &options);

} // namespace kerf::tool

#endif // KERF_TOOLS_EXPLAIN_H
