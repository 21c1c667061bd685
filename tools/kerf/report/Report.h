//===- Report.h - plan.json and run.json for people -------------*- C++ -*-===//
//
// `kerf report` reads the two documents of docs/CommandLine.md and nothing
// else. They share names, so a plan can be compared with another plan, or with
// a run of it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_REPORT_H
#define KERF_TOOLS_REPORT_H

#include "kerf/Format/Schemas.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace kerf::tool {

/// One of the two documents.
struct Document {
  std::string path;
  llvm::json::Object root;
  bool isPlan() const {
    return matchSchema(planSchema, root.getString("schema").value_or("")) ==
           SchemaMatch::Same;
  }
};

/// Equal collectives, which repeated layers have: one row for those of all
/// stages.
struct CollectiveRow {
  std::string what; ///< operation, axes, buffer, purpose
  std::string example;
  std::string formula; ///< of the bytes that a device sends; may be empty
  int64_t count = 0;
  int64_t tensors = 1;           ///< in the buffer that begins with `example`
  double bytes = 0, seconds = 0; ///< of the busiest rank, all that it sends
  bool differs = false;          ///< the ranks of another stage send less

  /// "1.5 MiB per rank", "at most 1.5 MiB per rank".
  std::string bytesText() const;
  /// "head.bias and 60 more, ...".
  std::string examples(bool isShort = false) const;
};
std::vector<CollectiveRow> collectiveRows(const llvm::json::Object &root);

/// "8 devices", "1 device".
std::string plural(int64_t count, const std::string &one,
                   const std::string &more = "");
/// The parts of a step of "time", all of it: "8.78 ms compute and 531 us wait
/// for communication"; `rest` says what takes what is neither.
std::string stepText(const llvm::json::Object *time, const std::string &rest);
/// Seconds of a step that are neither compute nor waiting for communication.
double otherSeconds(const llvm::json::Object &document);
/// What a run does in them.
inline const char *const kOtherOfRun =
    "neither: starting, inputs and outputs, waiting for the slowest rank";

/// A plan's objective and its proven bound: "1.2 ms, proven bound 1.1 ms, gap
/// 8.3%"; empty for a given plan.
std::string verdictText(const llvm::json::Object *objective);
/// "8.3%"; "0%" where the plan is proven to be the best, and nowhere else.
std::string gapText(double gap);
/// "pp=2 x dp=4", stages first; "nothing cut" for one device.
std::string meshText(const llvm::json::Object *mesh);
/// The number at a path of keys; 0 where there is none. Integers past 64 bits
/// are strings in the documents.
double numberAt(const llvm::json::Object *object,
                llvm::ArrayRef<llvm::StringRef> path);
std::string textAt(const llvm::json::Object *object, llvm::StringRef key);

/// Which commands write what `kerf report` reads.
extern const char *const kReportReads;

/// The measurements of a run, as `kerf run` prints them.
void printRun(llvm::raw_ostream &out, const llvm::json::Object &run);
/// Both documents side by side, then the rows that only one of them has; as
/// much as a screen holds, with `verbose` all of them.
void printDiff(llvm::raw_ostream &out, const Document &a, const Document &b,
               bool verbose);
/// A self-contained page: no scripts, no fonts, no network.
void printHtml(llvm::raw_ostream &out, const Document &document);

} // namespace kerf::tool

#endif // KERF_TOOLS_REPORT_H
