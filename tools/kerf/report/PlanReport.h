//===- PlanReport.h - plan.json for people ----------------------*- C++ -*-===//
#ifndef KERF_TOOLS_PLANREPORT_H
#define KERF_TOOLS_PLANREPORT_H

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <utility>
#include <vector>

namespace kerf::tool {

/// Mesh, the decision in sentences, stages, collectives, what is cut how,
/// memory, the runners-up; as much as a screen holds. `verbose`: all of it,
/// every value, and the three pure cuts.
void printPlan(llvm::raw_ostream &out, const llvm::json::Object &plan,
               bool verbose);

/// How the two models count the pure cuts, of which neither is a bound of the
/// other (docs/CostModel.md).
constexpr llvm::StringLiteral
    kRingCuts = "ring: as good algorithms send, by all-reduces, and between "
                "stages there and back",
    kArticleCuts = "article: each device what it has to every other one, and "
                   "between stages one way; so either may be above the other";

/// "20.4 k parameters", and how many the file stores where that is another
/// number.
std::string parametersText(const llvm::json::Object &plan);

/// Which cut, why, what the next best would cost, what lies in parts and what
/// is computed again: "cut", "why", "else", "zero" and "recompute", each with a
/// sentence. `verbose`: all names, in full.
std::vector<std::pair<std::string, std::string>>
decisionLines(const llvm::json::Object &plan, bool verbose);
/// "pp=2 x dp=4, 8 micro-batches" of one of the runners-up.
std::string candidateText(const llvm::json::Object &candidate);
/// Whether two of the runners-up have the same figures, whatever their axes
/// are: x=4 and x=2,y=2 may both cut the data alone.
bool areAlike(const llvm::json::Object &a, const llvm::json::Object &b);

/// One of the runners-up, or several that are alike.
struct CandidateRow {
  std::string what, cost, step, sent, memory;
  std::vector<std::string> remarks; ///< "above the limit", "the same: ..."
};
struct CandidateTable {
  std::vector<CandidateRow> rows; ///< best first
  /// What kept others from having a plan, and which.
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
};
/// Empty where no other candidate was looked at.
CandidateTable candidateTable(const llvm::json::Object &plan);
constexpr llvm::StringLiteral kCandidateFigures =
    "best first; memory is predicted, and so are the bytes of those that are "
    "not laid out";

/// "interleaved 1F1B, 2 chunks per stage"; else the kind of the schedule.
std::string scheduleInWords(const llvm::json::Object &plan);
/// Whether lowering has replaced the memory that was predicted.
bool isLaidOut(const llvm::json::Object &plan);
/// How long planning took, and what was searched.
std::string searchedText(const llvm::json::Object &plan, bool verbose);
/// Names of the parameters of the model, which states of optimizers are not.
llvm::StringSet<> parametersOf(const llvm::json::Object &plan);

} // namespace kerf::tool

#endif // KERF_TOOLS_PLANREPORT_H
