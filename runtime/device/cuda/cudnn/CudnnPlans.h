//===- CudnnPlans.h - the engines that take a graph of cuDNN ----*- C++ -*-===//
//
// cuDNN's heuristics list configurations of engines for a graph, best first.
// Notes of an engine describe how it computes; engines with notes that the
// caller refuses are left out. A plan is a configuration prepared for a GPU,
// which may take a second if code is generated.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNPLANS_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNPLANS_H

#include "CudnnDescriptor.h"

#include <optional>
#include <vector>

namespace kerf::rt {

/// What plans are for: the GPU of a handle, or one that a descriptor describes
/// (unittests/Cuda, from cuDNN 9.8).
struct DnnTarget {
  const Cudnn &library;
  dnn::Handle handle = nullptr;
  dnn::Descriptor device = nullptr;
};

/// Numerical notes, one bit each.
using DnnNotes = uint32_t;
constexpr DnnNotes noteBit(int note) { return DnnNotes(1) << note; }

/// Notes of engines to exclude always: sums must be deterministic, in f32, and
/// of operands that are not converted.
constexpr DnnNotes inexactNotes = noteBit(dnn::NoteDownConvertInputs) |
                                  noteBit(dnn::NoteReducedPrecisionReduction) |
                                  noteBit(dnn::NoteNondeterministic);
/// Notes of engines that multiply transformed operands. Of 16-bit operands the
/// transformed ones are rounded, too, and are far larger than what their sums
/// leave.
constexpr DnnNotes transformNotes =
    noteBit(dnn::NoteFft) | noteBit(dnn::NoteWinograd) |
    noteBit(dnn::NoteWinograd4x4) | noteBit(dnn::NoteWinograd6x6) |
    noteBit(dnn::NoteWinograd13x13);
/// Notes of engines to exclude where f32 operands must neither be rounded to
/// TF32 nor transformed.
constexpr DnnNotes tf32Notes = noteBit(dnn::NoteTensorCore) | transformNotes;

struct DnnConfig {
  DnnDescriptor config;
  int64_t engine;   ///< cuDNN's index of the engine
  std::string name; ///< place in the list and engine, for a cache
};

/// How one engine executes a graph. The configuration outlives the plan.
struct DnnPlan {
  DnnDescriptor config, plan;
  int64_t workspace; ///< bytes
};

/// A descriptor of a graph of operations; nothing where cuDNN refuses it.
std::optional<DnnDescriptor>
makeDnnGraph(const DnnTarget &target,
             const std::vector<dnn::Descriptor> &operations);

/// Of a finalized graph, best first, without engines that have one of the
/// `refused` notes. `mode`: dnn::HeuristicsA or the others that are left,
/// dnn::HeuristicsFallback.
std::vector<DnnConfig> findDnnConfigs(const DnnTarget &target,
                                      const DnnDescriptor &graph, int mode,
                                      DnnNotes refused);

/// Nothing where cuDNN cannot make it or it needs more workspace.
std::optional<DnnPlan> makeDnnPlan(const DnnTarget &target, DnnConfig &config,
                                   int64_t maxWorkspace);

/// The first configuration that makes a plan; fallback configurations only if
/// there are no others.
std::optional<DnnPlan> makeBestDnnPlan(const DnnTarget &target,
                                       const DnnDescriptor &graph,
                                       int64_t maxWorkspace, DnnNotes refused);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNPLANS_H
