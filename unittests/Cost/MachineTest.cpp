//===- MachineTest.cpp - machine files and presets ------------------------===//
#include "kerf/Cost/Machine.h"

#include <gtest/gtest.h>

using namespace kerf::cost;

namespace {

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<Machine> machine = parseMachine(text, "m.json");
  return machine ? "" : llvm::toString(machine.takeError());
}

std::string presetError(llvm::StringRef name, int64_t devices) {
  llvm::Expected<Machine> machine = machinePreset(name, devices, {2, 0});
  return machine ? "" : llvm::toString(machine.takeError());
}

Machine preset(llvm::StringRef name, int64_t devices = 0) {
  return llvm::cantFail(machinePreset(name, devices, {2, int64_t(8) << 30}));
}

/// A valid file with one piece of text replaced.
std::string edited(llvm::StringRef from, llvm::StringRef to) {
  std::string text = writeMachine(preset("h200-8"));
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to.str());
}

// Every preset survives a file.
TEST(Machine, RoundTrip) {
  for (llvm::StringRef name :
       {"cpu", "h100-8", "h200-8", "h100-8x4", "h200-8x2", "pcie-8",
        "ethernet-3", "h100-1", "h200-4", "a100-40gb-8", "a100-80gb-4x2",
        "l40s-1x4"}) {
    std::string text = writeMachine(preset(name));
    llvm::Expected<Machine> again = parseMachine(text, "m.json");
    ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
    EXPECT_EQ(writeMachine(*again), text);
    EXPECT_EQ(again->numDevices(), preset(name).numDevices());
    EXPECT_EQ(again->local.allReduceCurve.size(),
              preset(name).local.allReduceCurve.size());
  }
}

constexpr const char *kRates =
    R"({"flops_per_second": 8, "bytes_per_second": 4})";

/// A file of one device whose products have some more members.
std::string withMatmul(llvm::StringRef members, int version = 2) {
  std::string text = "{\"schema\": \"kerf.machine/" + std::to_string(version) +
                     R"(", "name": "one", "nodes": 1, "devices_per_node": 1,
    "compute": {)";
  for (const char *kind : {"elementwise", "row", "convolution", "gather"})
    text += "\"" + std::string(kind) + "\": " + kRates + ", ";
  return text + R"("matmul": {"flops_per_second": 8, "bytes_per_second": 4)" +
         members.str() + "}}}";
}

// A file with one number per class means what it did: all types and sizes at
// that rate, and it is written as it was read.
TEST(Machine, OneRatePerClass) {
  Machine machine = llvm::cantFail(parseMachine(withMatmul(""), "m.json"));
  const Throughput &rate = machine.throughput[unsigned(ComputeClass::Matmul)];
  for (auto kind : {ElementKind::Other, ElementKind::F64, ElementKind::F32,
                    ElementKind::F16, ElementKind::BF16})
    EXPECT_EQ(rate.flopsPerSecondOf(kind), 8);
  // It is written as version 1 has it, which earlier programs read.
  std::string text = writeMachine(machine);
  EXPECT_EQ(text.find("by_type"), std::string::npos);
  EXPECT_NE(text.find("\"kerf.machine/1\""), std::string::npos);
}

TEST(Machine, RatesByType) {
  Machine machine = llvm::cantFail(parseMachine(withMatmul(R"(,
        "flops_per_second_by_type": {"f32": 2, "bf16": 16})"),
                                                "m.json"));
  for (int i = 0; i < 2; ++i) { // as read, and as written and read again
    const Throughput &rate = machine.throughput[unsigned(ComputeClass::Matmul)];
    EXPECT_EQ(rate.flopsPerSecondOf(ElementKind::F32), 2);
    EXPECT_EQ(rate.flopsPerSecondOf(ElementKind::BF16), 16);
    EXPECT_EQ(rate.flopsPerSecondOf(ElementKind::F16), 8);
    machine = llvm::cantFail(parseMachine(writeMachine(machine), "m.json"));
  }
}

TEST(Machine, RateErrors) {
  auto error = [](llvm::StringRef members) {
    return errorOf(withMatmul(members));
  };
  std::string at = "m.json: compute.matmul.flops_per_second_by_type: ";
  EXPECT_EQ(error(R"(, "flops_per_second_by_type": {"f32": 0})"),
            at + "\"f32\" is 0, expected more than 0");
  EXPECT_EQ(error(R"(, "flops_per_second_by_type": {"f64": -2})"),
            at + "\"f64\" is -2, expected more than 0");
  EXPECT_EQ(error(R"(, "flops_per_second_by_type": {"bfloat16": 2})"),
            at + "unknown member \"bfloat16\", expected one of f64, f32, f16, "
                 "bf16, tf32");
  EXPECT_EQ(
      errorOf(withMatmul(R"(, "flops_per_second_by_type": {"f32": 2})", 1)),
      "m.json: compute.matmul: unknown member "
      "\"flops_per_second_by_type\", expected one of flops_per_second, "
      "bytes_per_second, latency_seconds");
  EXPECT_EQ(error(R"(, "flops_per_second_by_type": 7)"),
            "m.json: compute.matmul: \"flops_per_second_by_type\" is not an "
            "object");
}

TEST(Machine, PresetSizes) {
  EXPECT_EQ(preset("cpu").numDevices(), 2);
  EXPECT_EQ(preset("cpu", 8).numDevices(), 8);
  EXPECT_EQ(preset("cpu", 8).memoryBytesPerDevice, int64_t(1) << 30);
  EXPECT_EQ(preset("h100-8x4").numDevices(), 32);
  EXPECT_EQ(preset("h100-8x4", 16).nodes, 2);
  EXPECT_EQ(preset("h100-8x4", 4).nodes, 1);
  EXPECT_EQ(preset("ethernet-16").nodes, 16);
  EXPECT_EQ(preset("h100-1").numDevices(), 1);
  EXPECT_EQ(preset("h100-4").devicesPerNode, 4);
  EXPECT_EQ(preset("h100-4x3").numDevices(), 12);
  EXPECT_EQ(preset("a100-40gb-8").memoryBytesPerDevice, int64_t(40) << 30);
  EXPECT_EQ(preset("a100-80gb-8x2", 8).nodes, 1);
  EXPECT_EQ(preset("l40s-4").portsPerNode, 1);
}

TEST(Machine, PresetErrors) {
  EXPECT_EQ(presetError("h100-8", 16),
            "machine \"h100-8\" has 8 devices, 16 asked for: \"h100-8x2\" has "
            "as many");
  EXPECT_EQ(presetError("h100-8x4", 12),
            "12 devices of machine \"h100-8x4\", expected at most 8 or a "
            "multiple of it");
  EXPECT_EQ(
      presetError("abacus", 0),
      "unknown machine \"abacus\", expected a JSON file or one of cpu, "
      "h100-D, h200-D, a100-40gb-D, a100-80gb-D, l40s-D, GPU-DxN, pcie-8, "
      "ethernet-N (D is 1, 4 or 8)");
  EXPECT_EQ(presetError("A100-8", 0)
                .find("unknown machine \"A100-8\", did you mean a100-40gb-8 or "
                      "a100-80gb-8? Expected is a JSON file or one of cpu, "),
            0u);
  EXPECT_NE(presetError("h100-3", 0), "");
  EXPECT_NE(presetError("ethernet-0", 0), "");
  EXPECT_NE(presetError("ethernet-99999999999999999999", 0), "");
  EXPECT_NE(presetError("cpu", 1 << 20), "");
}

// A typo, a wrong type, a wrong range: the member is named with its path.
TEST(Machine, FileErrors) {
  EXPECT_EQ(errorOf("[]"), "m.json: not a JSON object");
  EXPECT_NE(errorOf("{").find("m.json: not JSON"), std::string::npos);
  EXPECT_EQ(errorOf("{}"), "m.json: missing member \"schema\"");
  EXPECT_EQ(errorOf(edited("kerf.machine/2", "kerf.machine/3")),
            "m.json: schema is \"kerf.machine/3\", newer than "
            "\"kerf.machine/2\", which this Kerf reads: measure the machine "
            "again, or use the Kerf that wrote it");
  EXPECT_EQ(errorOf(edited("\"nodes\": 1", "\"nodes\": 0")),
            "m.json: \"nodes\" is 0, expected at least 1");
  EXPECT_EQ(errorOf(edited("\"nodes\": 1", "\"nodes\": 1.5")),
            "m.json: \"nodes\" is not an integer");
  EXPECT_EQ(errorOf(edited("\"nodes\": 1", "\"nodes\": 1000000")),
            "m.json: nodes times devices_per_node is over 1048576");
  EXPECT_EQ(errorOf(edited("\"local\"", "\"lokal\"")),
            "m.json: missing member \"local\"");
  EXPECT_NE(errorOf(edited("\"ports_per_node\"", "\"ports\""))
                .find("m.json: unknown member \"ports\", expected one of"),
            std::string::npos);
  EXPECT_NE(errorOf(edited("\"matmul\"", "\"matmull\""))
                .find("m.json: compute: missing member \"matmul\""),
            std::string::npos);
  EXPECT_EQ(errorOf(edited("\"bandwidth_bytes_per_second\": 365000000000",
                           "\"bandwidth_bytes_per_second\": -1")),
            "m.json: local: \"bandwidth_bytes_per_second\" is -1, expected "
            "more than 0");
  EXPECT_EQ(
      errorOf(edited("\"buffer_bytes\": 33554432", "\"buffer_bytes\": 5")),
      "m.json: points[2]: expected more bytes and no fewer seconds than "
      "the point before");
  EXPECT_EQ(errorOf(edited("\"group_size\": 8", "\"group_size\": 1")),
            "m.json: local.all_reduce_curve: \"group_size\" is 1, expected at "
            "least 2");
}

} // namespace
