//===- Machine.h - devices and links as numbers -----------------*- C++ -*-===//
//
// A machine is `nodes` boxes of `devicesPerNode` equal devices. Devices of a
// node are connected by the `local` link, nodes by the `network`. A link is a
// latency and a bandwidth, or better a measured curve. Files are JSON, schema
// "kerf.machine/1", with the unit in every name; docs/CostModel.md lists the
// members.
//
// Rank r sits on node r / devicesPerNode: meshes are row-major with `pp`
// outermost, so inner axes stay inside nodes.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COST_MACHINE_H
#define KERF_COST_MACHINE_H

#include "kerf/Cost/Volume.h"

#include "llvm/Support/Error.h"

#include <array>
#include <vector>

namespace kerf::cost {

/// What limits an op's speed. The same order as kerf::CostClass, so that a
/// static_cast converts (Plan has a static_assert).
enum class ComputeClass { View, Elementwise, Row, Matmul, Convolution, Gather };
constexpr unsigned kNumComputeClasses = 6;
llvm::StringRef toString(ComputeClass kind);

/// What elements an op computes with, where that changes its speed. `Other`:
/// integers, bytes, mixtures. `TF32`: products of float32 that are rounded to
/// 10 bits of fraction (roundProducts()).
enum class ElementKind { Other, F64, F32, F16, BF16, TF32 };
constexpr unsigned kNumElementKinds = 6;
llvm::StringRef toString(ElementKind kind);

struct Throughput {
  double flopsPerSecond = 0; ///< reachable, not peak
  double bytesPerSecond = 0; ///< of memory, reachable
  /// Per call: launch, thread team, library entry.
  double latencySeconds = 0;
  /// By ElementKind; 0: `flopsPerSecond`.
  std::array<double, kNumElementKinds> typedFlopsPerSecond = {};

  double flopsPerSecondOf(ElementKind kind) const {
    double own = typedFlopsPerSecond[static_cast<unsigned>(kind)];
    return own > 0 ? own : flopsPerSecond;
  }
};

struct Link {
  double latencySeconds = 0;
  /// What one device can send while it receives as much; for the network, what
  /// one NIC can.
  double bytesPerSecond = 0;
  /// Calibrated all-reduce curve over the whole link, buffer bytes ascending;
  /// between points linear in bytes, beyond the last at its slope. Empty: use
  /// latency and bandwidth. A curve counts for groups of any size by scaling
  /// with busy bytes (Time.h).
  struct Point {
    int64_t bufferBytes;
    double seconds;
  };
  std::vector<Point> allReduceCurve;
  int64_t curveGroupSize = 0; ///< ranks with which the curve was measured
};

struct Machine {
  std::string name;
  std::string description;
  int64_t nodes = 1;
  int64_t devicesPerNode = 1;
  int64_t memoryBytesPerDevice = 0; ///< 0: unknown, no limit

  /// Throughput of one device *alone*, by class.
  std::array<Throughput, kNumComputeClasses> throughput;
  /// CPU ranks share cores: with `cores` > 0 a node's ranks slow down by max(1,
  /// devicesPerNode * threadsPerDevice / cores), and their memory bandwidth by
  /// max(1, devicesPerNode / ranksThatSaturateMemory) (Time.cpp).
  int64_t cores = 0;
  int64_t threadsPerDevice = 1;
  /// Ranks that together saturate the node's memory (CPU); 0: each device has
  /// its own memory.
  double ranksThatSaturateMemory = 0;

  Link local, network;
  /// Network ports per node, shared by its devices. 0: one for each device.
  int64_t portsPerNode = 0;

  int64_t numDevices() const { return nodes * devicesPerNode; }
};

/// The machine where products and convolutions of float32 are rounded to TF32:
/// those of float32 are as fast as those of TF32, if the machine has a rate for
/// them.
Machine roundProducts(Machine machine);

/// Reads a machine; the error names the member: "machine.json: local: missing
/// member \"bandwidth_bytes_per_second\"". `source` is for messages only.
llvm::Expected<Machine> parseMachine(llvm::StringRef json,
                                     llvm::StringRef source);
/// A file that parseMachine reads back to the same machine.
std::string writeMachine(const Machine &machine);

/// The facts about the caller's host that presets depend on.
struct HostInfo {
  int64_t cores = 1;
  int64_t memoryBytes = 0; ///< 0: unknown
};

/// "cpu"; "GPU-D" and "GPU-DxN", one node or N of D (1, 4, 8) GPUs, with GPU
/// one of h100, h200, a100-40gb, a100-80gb and l40s; "pcie-8"; "ethernet-N" (N
/// hosts of one device). With `numDevices` > 0 the machine is
/// cut (or for cpu and ethernet: made) to that many devices. An error lists the
/// names, or says how many devices the preset has.
llvm::Expected<Machine> machinePreset(llvm::StringRef name, int64_t numDevices,
                                      const HostInfo &host);
/// Cores and memory of the machine that runs this.
HostInfo thisHost();
/// A preset of this host, or, where the name ends in ".json", what a file
/// holds; an error if it has fewer devices.
llvm::Expected<Machine> loadMachine(llvm::StringRef nameOrPath,
                                    int64_t numDevices);
/// For --help: name and one line each.
std::vector<std::pair<std::string, std::string>> machinePresetNames();

} // namespace kerf::cost

#endif // KERF_COST_MACHINE_H
