//===- Verify.cpp - the program against a reference -----------------------===//
//
// Compiles the model as planned, runs it, and compares every element of every
// output with a reference on the same inputs, given or drawn from the seed
// (VerifyReference.h). With --train both do --steps training steps on the same
// data; the outputs of the last step and every parameter that steps write are
// compared. If something differs, the first wrong value is searched for
// (VerifyLocate.h).
//
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "Output.h"
#include "Progress.h"
#include "VerifyJudge.h"
#include "VerifyLocate.h"

#include "kerf/Format/Schemas.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::tool;

/// "shares the import of the model and autodiff with the program".
static std::string sharesText(const Reference &reference) {
  if (reference.shares.empty())
    return "shares nothing with the program";
  std::string list;
  for (size_t i = 0; i < reference.shares.size(); ++i)
    list += (i == 0                             ? ""
             : i + 1 == reference.shares.size() ? " and "
                                                : ", ") +
            reference.shares[i];
  return "shares " + list + " with the program";
}

static llvm::json::Object toJson(const Difference &d) {
  return llvm::json::Object{{"name", d.name},
                            {"elements", d.elements},
                            {"wrong", d.wrong},
                            {"equal_unrounded", d.unrounded},
                            {"decided_by_rounding", d.undecided},
                            {"nan_in_both", d.notNumbers},
                            {"largest_difference", d.largest},
                            {"largest_relative_difference", d.largestRelative},
                            {"at", indexText(d.at)}};
}

static llvm::json::Object toJson(const Reference &reference) {
  llvm::json::Array shares, notes;
  for (const std::string &part : reference.shares)
    shares.push_back(part);
  for (const std::string &note : reference.notes)
    notes.push_back(note);
  return llvm::json::Object{{"kind", reference.kind},
                            {"what", reference.how},
                            {"shares", std::move(shares)},
                            {"sampled", reference.sampled},
                            {"notes", std::move(notes)}};
}

static llvm::json::Object toJson(const FirstDifference &first) {
  llvm::json::Array remarks;
  for (const std::string &remark : first.remarks)
    remarks.push_back(remark);
  llvm::json::Object object{{"remarks", std::move(remarks)}};
  if (!first.value.empty()) {
    object["value"] = first.value;
    object["difference"] = toJson(first.difference);
  }
  return object;
}

/// How many outputs are listed without -v: at most kRows that differ, and all
/// that are equal; if these are more than kRows, the kFurthest of them that are
/// furthest from the reference.
static constexpr size_t kRows = 8, kFurthest = 3;

static void printDifferences(llvm::ArrayRef<Difference> differences,
                             const Options &options) {
  PrintableStream out(llvm::outs());
  auto print = [&](const char *verdict, llvm::ArrayRef<const Difference *> rows,
                   size_t shown, const char *rest) {
    if (options.verbose)
      shown = rows.size();
    for (const Difference *d : rows.take_front(shown))
      out << verdict << d->name << ": " << differenceText(*d, options.train)
          << "\n";
    if (shown < rows.size())
      out << verdict << "... and " << rows.size() - shown << " more" << rest
          << " (-v lists all)\n";
  };
  std::vector<const Difference *> wrong, equal;
  for (const Difference &d : differences)
    (d.wrong ? wrong : equal).push_back(&d);
  print("differs  ", wrong, std::min(wrong.size(), kRows), "");
  if (options.quiet)
    return;
  bool isMany = equal.size() > kRows;
  if (isMany && !options.verbose)
    llvm::stable_sort(equal, [](const Difference *a, const Difference *b) {
      return a->largest > b->largest;
    });
  print("equal    ", equal, isMany ? kFurthest : equal.size(),
        ", none further from the reference");
}

static void printFirst(const FirstDifference &first, bool ofTraining) {
  if (!first.value.empty())
    PrintableStream(llvm::outs())
        << "first    " << first.value << ": "
        << differenceText(first.difference, ofTraining) << "\n";
  for (const std::string &remark : first.remarks)
    PrintableStream(llvm::outs()) << "         " << remark << "\n";
}

static bool isAllNaN(const Difference &d) {
  return d.elements > 0 && d.notNumbers == d.elements;
}

/// Why a comparison without a difference shows nothing; empty: it does. The
/// loss of a training step is its first output.
static std::string whyNothingWasCompared(llvm::ArrayRef<Difference> outputs,
                                         bool ofTraining) {
  if (outputs.empty())
    return "";
  if (ofTraining ? !isAllNaN(outputs.front())
                 : !llvm::all_of(outputs, isAllNaN))
    return "";
  return ofTraining ? "the loss is NaN in the program and in the reference"
                    : "all outputs are NaN in the program and in the reference";
}

/// A program compiled for one device rounds as well, and cannot tell what
/// rounding decides: where it differs, an independent reference that had been
/// left out for the time it takes is asked.
static Judgement judgeInEarnest(const Options &options, Program &judged,
                                std::unique_ptr<Reference> &reference,
                                Progress &progress) {
  const double scale = judged.lossScale;
  Judgement found = judge(options, judged, *reference, progress);
  std::unique_ptr<Reference> independent = reference->independent();
  if (found.isFine() || !independent)
    return found;
  progress.rename("something differs: asking an independent reference");
  independent->notes.push_back("the program compiled for one device differs; "
                               "this reference tells what rounding decides");
  reference = std::move(independent);
  judged.restart(scale);
  return judge(options, judged, *reference, progress);
}

int kerf::tool::verify(const Options &options) {
  Program judged(options, Program::Role::Judged);
  std::optional<Progress> progress(options);
  progress->enter("preparing the reference");
  std::unique_ptr<Reference> reference = makeReference(options, judged);
  const Judgement found = judgeInEarnest(options, judged, reference, *progress);
  bool fine = found.isFine();
  std::string nothing = whyNothingWasCompared(found.outputs(), options.train);
  std::optional<FirstDifference> first;
  int64_t ranks = judged.numRanks();
  progress->enter("");
  if (!options.json) {
    if (!options.quiet) {
      PrintableStream out(llvm::outs());
      out << "reference " << reference->kind << ": " << reference->how << "; "
          << sharesText(*reference) << "\n";
      if (!reference->sampled.empty())
        out << "          compared: " << reference->sampled << "\n";
      for (const std::string &note : reference->notes)
        out << "          " << note << "\n";
    }
    printDifferences(found.outputs(), options);
    printDifferences(found.parameters(), options);
    llvm::outs().flush();
  }
  if (!fine && found.isOfUpdates()) {
    // Values are compared at their own scale, which is coarser.
    first = FirstDifference();
    first->remarks.push_back(
        "only what steps change of parameters differs: as far as 16 bits "
        "tell, the loss, its outputs and the optimizer's states are right");
  } else if (!fine) {
    progress->enter("looking for the first difference");
    first = locate(options, judged, *reference);
  }
  if (!fine && reference->kind == "compiled")
    first->remarks.push_back(
        "the program for one device rounds as well, in places of its own: "
        "--reference=unfused tells what rounding decides");
  progress.reset();
  if (options.json) {
    llvm::json::Array rows;
    for (const Difference &d : found.differences)
      rows.push_back(toJson(d));
    llvm::json::Object root{
        {"schema", verifySchema.text()},   {"equal", fine},
        {"compared", nothing.empty()},     {"ranks", ranks},
        {"reference", toJson(*reference)}, {"outputs", std::move(rows)}};
    if (first)
      root["first_difference"] = toJson(*first);
    llvm::outs() << llvm::formatv("{0:2}\n",
                                  llvm::json::Value(std::move(root)));
  } else {
    if (first)
      printFirst(*first, options.train);
    if (fine && !nothing.empty())
      PrintableStream(llvm::outs())
          << "NOT verified: " << nothing
          << ", so nothing was compared; inputs that are not given are drawn "
             "at random, --input=NAME=... gives one that the model takes\n";
    else if (!options.quiet)
      PrintableStream(llvm::outs())
          << (fine ? "verified" : "NOT equal") << ": " << ranks
          << (ranks == 1 ? " rank" : " ranks")
          << (judged.description.empty() ? "" : " (" + judged.description + ")")
          << ", bytes sent as planned\n";
  }
  llvm::outs().flush();
  return fine && nothing.empty() ? kFine : kResultsDiffer;
}