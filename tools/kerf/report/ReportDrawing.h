//===- ReportDrawing.h - drawings of a plan, or a run -----------*- C++ -*-===//
//
// Pictures of a page (ReportHtml.cpp) as SVG inside it: devices by stages and
// axes, values in the order of the program with what is sent between them, and
// who computes what when. Each says with a title what a mark is. What a
// document does not have is not drawn.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_REPORTDRAWING_H
#define KERF_TOOLS_REPORTDRAWING_H

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kerf::tool {

/// For text between tags and in attributes.
std::string escapeHtml(llvm::StringRef raw);

/// Rules for the classes of the pictures.
extern const char *const kDrawingStyle;

/// Of a plan: a block for each stage, in it a cell for each device at its
/// coordinates.
void drawDevices(llvm::raw_ostream &out, const llvm::json::Object &root);
/// A strip of all values, coloured by how they are cut; above it the stages,
/// below it a mark for each collective at the value that it moves.
void drawValues(llvm::raw_ostream &out, const llvm::json::Object &plan);
/// A row for each stage of a plan, as simulated, or for each rank of a run, as
/// measured, one instruction after another.
void drawSchedule(llvm::raw_ostream &out, const llvm::json::Object &root);
/// Of a plan that is lowered: what a device of each stage holds, call by call.
void drawMemory(llvm::raw_ostream &out, const llvm::json::Object &plan);

} // namespace kerf::tool

#endif // KERF_TOOLS_REPORTDRAWING_H
