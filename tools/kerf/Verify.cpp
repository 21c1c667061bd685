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
#include "VerifyLocate.h"
#include "VerifyProgram.h"
#include "VerifyReference.h"

#include "kerf/Format/Schemas.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

using namespace kerf;
using namespace kerf::tool;

static double largestMagnitude(const std::vector<Piece> &pieces) {
  double result = 0;
  for (const Piece &piece : pieces)
    result = std::max(result, tool::largestMagnitude(piece.numbers));
  return result;
}

/// An element of an output that depends on 16-bit values is right if it is
/// right with or without the rounding of those values: the model rounds each
/// value, while a program may keep values that it does not store in wider types
/// (a fully masked row can depend on it).
static std::vector<Difference> compareOutputs(const Program &judged,
                                              Reference &reference,
                                              const Options &options) {
  std::vector<Difference> result;
  std::vector<std::vector<Piece>> known;
  std::vector<kerf_tensor_info_t> infos = judged.outputs();
  auto judge = [&](size_t index, const std::vector<Piece> &wide) {
    Tolerance tolerance(options, infos[index].dtype,
                        judged.narrowOutputs[index],
                        largestMagnitude(known[index]));
    return compare(infos[index], judged.output(static_cast<int32_t>(index)),
                   known[index], tolerance, wide);
  };
  bool differs = false;
  for (size_t index = 0; index < infos.size(); ++index) {
    known.push_back(
        reference.output(infos[index], static_cast<int32_t>(index)));
    result.push_back(judge(index, {}));
    differs |= result.back().wrong && judged.narrowOutputs[index] > 0;
  }
  if (!differs || options.train || !reference.stepWide(judged))
    return result;
  for (size_t index = 0; index < infos.size(); ++index)
    if (result[index].wrong && judged.narrowOutputs[index] > 0)
      result[index] = judge(
          index, reference.output(infos[index], static_cast<int32_t>(index)));
  return result;
}

/// "adam.v" of "adam.v/w"; empty for a parameter of the model.
static std::string kindOfState(const kerf_parameter_info_t &info) {
  std::string name = info.tensor.name;
  return info.stored.name ? "" : name.substr(0, name.find('/'));
}

/// Compares every parameter that steps write. States of the optimizer can be
/// tiny (squares of gradients): their absolute tolerance is relative to the
/// largest element of their kind.
static std::vector<Difference> compareParameters(const Program &judged,
                                                 Reference &reference,
                                                 const Options &options) {
  struct Entry {
    std::string name;
    int32_t index;
    std::vector<Piece> pieces;
  };
  std::vector<Entry> entries;
  std::map<std::string, double> scales;
  for (auto &[name, index] : judged.mutableParameters()) {
    kerf_parameter_info_t info = judged.parameter(index);
    std::optional<std::vector<double>> numbers =
        reference.parameter(info, name);
    if (!numbers)
      throw Failure{
          kInternal, "the reference does not write parameter " + name, {}};
    Entry entry{name, index, {wholePiece(info.tensor, std::move(*numbers))}};
    double &scale = scales[kindOfState(info)];
    scale = std::max(scale, largestMagnitude(entry.pieces));
    entries.push_back(std::move(entry));
  }
  std::vector<Difference> result;
  for (const Entry &entry : entries) {
    kerf_parameter_info_t info = judged.parameter(entry.index);
    double scale = scales[kindOfState(info)];
    Tolerance tolerance(options, info.tensor.dtype, judged.narrow, scale);
    if (!kindOfState(info).empty() && (options.atol || judged.narrow == 0))
      tolerance.atol *= std::min(1.0, scale);
    std::vector<char> data = judged.parameterData(entry.index);
    result.push_back(
        compare(info.tensor, data.data(), entry.pieces, tolerance));
    result.back().name = entry.name;
  }
  return result;
}

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

/// The optimizer's name if the length of its updates does not depend on that of
/// the gradient, else empty.
static std::string normalizingOptimizer(const Options &options) {
  std::string name = compilationOptions(options).training->optimizer.name;
  return name == "sgd" || name == "momentum" ? "" : name;
}

static llvm::json::Object toJson(const Difference &d) {
  return llvm::json::Object{{"name", d.name},
                            {"elements", d.elements},
                            {"wrong", d.wrong},
                            {"equal_unrounded", d.unrounded},
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

static void printDifferences(const std::vector<Difference> &differences,
                             bool quiet) {
  for (const Difference &d : differences)
    if (d.wrong || !quiet)
      PrintableStream(llvm::outs())
          << (d.wrong ? "differs  " : "equal    ") << d.name << ": "
          << differenceText(d) << "\n";
}

static void printFirst(const FirstDifference &first) {
  if (!first.value.empty())
    PrintableStream(llvm::outs()) << "first    " << first.value << ": "
                                  << differenceText(first.difference) << "\n";
  for (const std::string &remark : first.remarks)
    PrintableStream(llvm::outs()) << "         " << remark << "\n";
}

int kerf::tool::verify(const Options &options) {
  Program judged(options, Program::Role::Judged);
  std::unique_ptr<Reference> reference = makeReference(options, judged);
  for (int64_t step = 0; step < judged.numSteps(); ++step) {
    judged.step();
    reference->step(judged);
  }
  std::vector<Difference> differences =
      compareOutputs(judged, *reference, options);
  bool parametersDiffer = false;
  if (options.train && options.expected.empty())
    for (Difference &d : compareParameters(judged, *reference, options)) {
      parametersDiffer |= d.wrong > 0;
      differences.push_back(std::move(d));
    }
  bool fine = llvm::none_of(differences,
                            [](const Difference &d) { return d.wrong > 0; });
  std::optional<FirstDifference> first;
  int64_t ranks = judged.numRanks();
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
    printDifferences(differences, options.quiet);
    llvm::outs().flush();
  }
  if (!fine)
    first = locate(options, judged, *reference);
  if (parametersDiffer)
    if (std::string name = normalizingOptimizer(options); !name.empty())
      first->remarks.push_back(
          name + " divides a gradient by its own size: parameters whose "
                 "gradient is zero but for rounding (a bias before BatchNorm, "
                 "that of keys in attention) are moved by noise; "
                 "--optimizer=sgd compares such a model");
  if (options.json) {
    llvm::json::Array rows;
    for (const Difference &d : differences)
      rows.push_back(toJson(d));
    llvm::json::Object root{{"schema", verifySchema.text()},
                            {"equal", fine},
                            {"ranks", ranks},
                            {"reference", toJson(*reference)},
                            {"outputs", std::move(rows)}};
    if (first)
      root["first_difference"] = toJson(*first);
    llvm::outs() << llvm::formatv("{0:2}\n",
                                  llvm::json::Value(std::move(root)));
  } else {
    if (first)
      printFirst(*first);
    if (!options.quiet)
      PrintableStream(llvm::outs())
          << (fine ? "verified" : "NOT equal") << ": " << ranks
          << (ranks == 1 ? " rank" : " ranks")
          << (judged.description.empty() ? "" : " (" + judged.description + ")")
          << ", bytes sent as planned\n";
  }
  llvm::outs().flush();
  return fine ? kFine : kResultsDiffer;
}
