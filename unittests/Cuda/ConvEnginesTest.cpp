//===- ConvEnginesTest.cpp - engines of cuDNN for our convolutions --------===//
//
// cuDNN answers without a GPU which engines take a graph on a device that is
// described, and makes plans as far as loading their code. Where it is
// installed (9.8 or newer, with a libcuda or the toolkit's stub of it) every
// call here must find a form with engines by the way that the runtime takes.
//
// The answers are asked for in a process of their own: the stub must not be the
// driver of other tests.
//
//===----------------------------------------------------------------------===//
#include "device/cuda/cudnn/ConvSteps.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <set>
#include <sys/wait.h>
#include <tuple>

using namespace kerf::rt;

namespace {
constexpr int skipped = 77;

/// What cuDNN asks of a device, for an H200.
constexpr char h200[] =
    R"({"name": "NVIDIA H200", "deviceName": "NVIDIA H200", "deviceVer": 900,
"multiProcessorCount": 132, "maxGridSize": [2147483647, 65535, 65535],
"maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "warpSize": 32,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
"maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
"sharedMemoryPerMultiprocessor": 233472, "maxSharedMemoryPerSM": 233472,
"supportCoopLaunch": 1, "driverVer": 13000,
"pciDeviceId": 9013, "isTccDriver": 0, "computeMode": 0, "cudaDeviceId": 0,
"smClockRate": 1980000, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
"l2CacheSize": 62914560, "totalGlobalMem": 150000000000})";

struct Sizes {
  int64_t groups, in, out, image, kernel, stride, pad;
};
struct Case {
  /// Types, then "dx" or "dw" for gradients, "pool", "1d", "3d", "offset" or
  /// "slice" (of channels) for a view; other words are for people.
  const char *name;
  Sizes sizes;
  const char *points; ///< of "bar": bias, added tensor, ReLU
  bool wide = false;  ///< expected
  /// Engines of its types that take seconds to make: with KERF_FULL alone.
  bool slow = false;
  bool says(const std::string &word) const {
    return cat(" ", name, " ").find(cat(" ", word, " ")) != std::string::npos;
  }
};

Operand buffer(int64_t index) {
  Operand operand;
  operand.kind = Operand::Buffer;
  operand.index = index;
  return operand;
}

LibraryDesc describe(const Case &c) {
  LibraryDesc desc;
  const Sizes &z = c.sizes;
  desc.kind = c.says("dx")     ? LibraryDesc::ConvInputGradient
              : c.says("dw")   ? LibraryDesc::ConvWeightGradient
              : c.says("pool") ? LibraryDesc::Pool
                               : LibraryDesc::Conv;
  desc.algorithm = c.says("pool") ? "max" : "";
  bool narrows = c.says("bf16") || c.says("f16");
  desc.dtype = c.says("bf16") || c.says("bf16>f32") ? KERF_BF16
               : c.says("f16") || c.says("f16>f32") ? KERF_F16
                                                    : KERF_F32;
  desc.dstDtype = narrows ? desc.dtype : KERF_F32;
  desc.batch = {8};
  desc.groups = z.groups;
  desc.inChannels = z.in;
  desc.outChannels = z.out;
  size_t rank = c.says("1d") ? 1 : c.says("3d") ? 3 : 2;
  desc.in = Shape(rank, z.image);
  desc.kernel = Shape(rank, z.kernel);
  desc.strides = Shape(rank, z.stride);
  desc.dilations = Shape(rank, 1);
  desc.padsLow = desc.padsHigh = Shape(rank, z.pad);
  desc.out = Shape(rank, (z.image + 2 * z.pad - z.kernel) / z.stride + 1);
  desc.lhs = buffer(0);
  desc.rhs = buffer(1);
  desc.dst = buffer(2);
  if (c.says("offset"))
    desc.lhs.offset = 1;
  if (c.says("slice"))
    desc.lhs.strides = {z.image * z.image * 2 * z.in, z.image * 2 * z.in,
                        2 * z.in, 1};
  for (const char *p = c.points; *p; ++p) {
    if (*p == 'b')
      desc.bias = buffer(3);
    PostOp op;
    op.kind = *p == 'a' ? "add" : "relu";
    if (*p == 'a')
      op.operand = buffer(4);
    if (*p != 'b')
      desc.postOps.push_back(op);
  }
  return desc;
}

const Case cases[] = {
    // f32 without TF32: engines that use no tensor cores are few.
    {"f32", {1, 64, 64, 28, 3, 1, 1}, ""},
    {"f32", {1, 64, 64, 28, 3, 1, 1}, "br"},
    {"f32", {1, 64, 64, 28, 3, 1, 1}, "bar"},
    {"f32 1x1 stride", {1, 64, 128, 28, 1, 2, 0}, ""},
    {"f32 image", {1, 3, 64, 56, 7, 2, 3}, "br"},
    {"f32 depthwise", {64, 64, 64, 28, 3, 1, 1}, "bar"},
    {"f32 one channel", {1, 16, 1, 9, 1, 1, 0}, "ba"},
    {"f32 1d", {1, 16, 24, 64, 3, 1, 1}, "b"},
    {"f32 3d", {1, 8, 8, 8, 3, 1, 1}, "b"},
    {"f32 dx", {1, 64, 64, 28, 3, 1, 1}, ""},
    {"f32 dx stride", {1, 64, 128, 28, 3, 2, 1}, ""},
    {"f32 dx grouped", {2, 12, 24, 8, 3, 1, 1}, ""},
    {"f32 dw", {1, 64, 64, 28, 3, 1, 1}, ""},
    {"f32 dw image", {1, 3, 64, 56, 7, 2, 3}, ""},
    {"f32 dw depthwise", {64, 64, 64, 28, 3, 1, 1}, ""},
    {"tf32", {1, 64, 64, 28, 3, 1, 1}, "bar"},
    {"tf32 dx", {1, 64, 64, 28, 3, 1, 1}, ""},
    {"tf32 dw", {1, 64, 64, 28, 3, 1, 1}, ""},
    // 16 bits that give f32.
    {"bf16>f32", {1, 64, 64, 28, 3, 1, 1}, ""},
    {"bf16>f32", {1, 64, 64, 28, 3, 1, 1}, "bar"},
    {"bf16>f32 image", {1, 3, 64, 56, 7, 2, 3}, "br"},
    {"bf16>f32 grouped", {2, 12, 24, 8, 3, 1, 1}, "b"},
    {"bf16>f32 depthwise", {64, 64, 64, 28, 3, 1, 1}, "bar", true},
    {"bf16>f32 dx", {1, 64, 64, 28, 3, 1, 1}, "", false, true},
    {"bf16>f32 dx stride", {1, 8, 16, 28, 3, 2, 1}, "", false, true},
    {"bf16>f32 dx image", {1, 3, 12, 32, 5, 2, 2}, "", true},
    {"bf16>f32 dx grouped", {2, 12, 24, 8, 3, 1, 1}, "", true},
    {"bf16>f32 dx depthwise", {64, 64, 64, 28, 3, 1, 1}, "", true},
    {"bf16>f32 dw", {1, 64, 64, 28, 3, 1, 1}, "", false, true},
    {"bf16>f32 dw image", {1, 3, 12, 32, 5, 2, 2}, "", true},
    {"bf16>f32 dw grouped", {2, 12, 24, 8, 3, 1, 1}, "", true},
    {"bf16>f32 dw depthwise", {64, 64, 64, 28, 3, 1, 1}, "", true},
    {"f16>f32", {1, 64, 64, 28, 3, 1, 1}, "bar"},
    {"f16>f32 dx", {1, 64, 64, 28, 3, 1, 1}, "", false, true},
    {"f16>f32 dw", {1, 64, 64, 28, 3, 1, 1}, "", false, true},
    // 16 bits that stay.
    {"bf16", {1, 64, 64, 28, 3, 1, 1}, "br"},
    {"bf16", {1, 64, 64, 28, 3, 1, 1}, "bar"},
    {"bf16 deep", {1, 512, 512, 14, 3, 2, 1}, "br"},
    {"bf16 image", {1, 3, 64, 56, 7, 2, 3}, "br"},
    {"bf16 depthwise", {64, 64, 64, 28, 3, 1, 1}, "bar"},
    {"bf16 dx", {1, 64, 64, 28, 3, 1, 1}, ""},
    {"bf16 dx image", {1, 3, 12, 32, 5, 2, 2}, ""},
    {"bf16 dw", {1, 64, 64, 28, 3, 1, 1}, ""},
    {"bf16 dw grouped", {2, 12, 24, 8, 3, 1, 1}, ""},
    {"bf16 dw depthwise", {64, 64, 64, 28, 3, 1, 1}, ""},
    // Views.
    {"bf16>f32 offset", {1, 64, 64, 28, 3, 1, 1}, "br", false, true},
    {"bf16 offset", {1, 64, 64, 28, 3, 1, 1}, "br"},
    {"f32 slice", {1, 64, 64, 28, 3, 1, 1}, "br"},
    {"bf16>f32 dw slice", {1, 64, 64, 28, 3, 1, 1}, "", true},
    {"bf16 max pool", {1, 64, 64, 28, 2, 2, 0}, ""},
};

class Engines {
public:
  Engines(const Cudnn &library, DnnDescriptor described)
      : device(std::move(described)), target{library, nullptr, device.get()} {
    void *handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    lastError = reinterpret_cast<void (*)(char *, size_t)>(
        dlsym(handle, "cudnnGetLastErrorString"));
  }

  /// 0 if all is well.
  int run() {
    int failures = 0;
    for (const Case &c : cases)
      if (!c.slow || std::getenv("KERF_FULL"))
        failures += !check(c);
    failures += !checkTensorCoresAreRefused();
    return failures ? 1 : 0;
  }

private:
  /// The number of the engine whose plan can be made, up to its code. Some take
  /// seconds: one plan of an engine is enough for calls of one `kind`.
  int64_t firstEngine(const DnnDescriptor &graph, DnnNotes refused,
                      bool fallback, const std::string &kind) {
    std::vector<int> modes = {dnn::HeuristicsA};
    if (fallback)
      modes.push_back(dnn::HeuristicsFallback);
    for (int mode : modes)
      for (DnnConfig &config : findDnnConfigs(target, graph, mode, refused)) {
        std::string key = cat(kind, " ", config.engine);
        if (known.count(key) ||
            makeDnnPlan(target, config, int64_t(512) << 20)) {
          known.insert(key);
          return config.engine;
        }
        // The stub loads no code.
        char text[4096] = "";
        lastError(text, sizeof(text));
        if (std::string(text).find("cuLibraryLoadData") != std::string::npos) {
          known.insert(key);
          return config.engine;
        }
      }
    return -1;
  }

  bool hasEngines(const LibraryDesc &desc, const ConvStep &step,
                  bool fallback) {
    if (step.kind == ConvStep::Graph) {
      int64_t engine =
          firstEngine(step.parts.back(), step.refused, fallback,
                      cat(desc.kindName(), " ", step.name, " ", step.refused));
      found += cat(" ", step.name, ":", engine);
      return engine >= 0;
    }
    if (step.kind == ConvStep::Reorder)
      return step.fromType != KERF_BF16;
    auto [it, isNew] = casts.try_emplace(
        {step.elements, step.fromType, step.toType, step.alignment});
    if (isNew) {
      auto parts = describeCast(target, step.elements, step.fromType,
                                step.toType, step.alignment);
      it->second =
          parts.empty() ? -1 : firstEngine(parts.back(), 0, true, "cast");
    }
    found += cat(" cast:", it->second);
    return it->second >= 0;
  }

  bool check(const Case &c) {
    LibraryDesc desc = describe(c);
    ConvPlan conv = planConv(desc);
    auto begin = std::chrono::steady_clock::now();
    found = "";
    const char *wrong = "no engine";
    for (ConvForm form : convForms(desc, conv)) {
      found += cat(" |", form.fused ? " fused" : "", form.wide ? " wide" : "",
                   form.fallback ? " fallback" : "");
      auto steps = describeConv(target, desc, conv, form, c.says("tf32"));
      bool good = steps.has_value();
      for (size_t i = 0; good && i < steps->steps.size(); ++i)
        good = hasEngines(desc, steps->steps[i], form.fallback);
      if (!good)
        continue;
      wrong = form.wide != c.wide        ? "another form than expected"
              : !isOrdered(desc, *steps) ? "steps in a wrong order"
                                         : nullptr;
      break;
    }
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    std::fprintf(wrong ? stderr : stdout, "%s: %s%s, %.2f s\n", c.name,
                 wrong ? wrong : "good", found.c_str(), took.count());
    std::fflush(stdout);
    return !wrong;
  }

  /// What a step reads was written, and the last one writes the result.
  static bool isOrdered(const LibraryDesc &desc, const ConvSteps &steps) {
    ConvPlace result = desc.kind == LibraryDesc::ConvInputGradient
                           ? ConvPlace::Image
                       : desc.kind == LibraryDesc::ConvWeightGradient
                           ? ConvPlace::StoredWeights
                           : ConvPlace::Result;
    std::set<ConvPlace> known = {ConvPlace::Image, ConvPlace::Result,
                                 ConvPlace::StoredWeights, ConvPlace::Bias,
                                 ConvPlace::Added};
    known.erase(result);
    std::map<ConvPlace, int64_t> converted; // elements, from the first on
    for (const ConvStep &step : steps.steps) {
      if (step.kind != ConvStep::Graph) {
        if (!known.count(step.from) ||
            (step.kind == ConvStep::Cast &&
             (step.first != converted[step.to] || step.elements < 2)))
          return false;
        converted[step.to] += step.elements;
        known.insert(step.to);
        continue;
      }
      int unknown = 0;
      for (auto [id, place] : step.bound)
        unknown += known.insert(place).second;
      if (unknown > 1)
        return false;
    }
    for (const ConvStep &step : steps.steps)
      if (step.kind == ConvStep::Cast &&
          converted[step.to] * dtypeSize(step.toType) !=
              steps.bytes.at(step.to))
        return false;
    return known.count(result) == 1;
  }

  /// The best engines for f32 use TF32: what is left must not have them.
  bool checkTensorCoresAreRefused() {
    LibraryDesc desc = describe(cases[0]);
    ConvPlan conv = planConv(desc);
    auto steps = describeConv(target, desc, conv, {false, false, false}, false);
    const DnnDescriptor &graph = steps->steps.back().parts.back();
    auto all = findDnnConfigs(target, graph, dnn::HeuristicsA, 0),
         exact = findDnnConfigs(target, graph, dnn::HeuristicsA,
                                inexactNotes | tf32Notes);
    bool good = !exact.empty() && exact.size() < all.size() &&
                exact[0].name != all[0].name &&
                steps->steps.back().refused == (inexactNotes | tf32Notes);
    if (!good)
      std::fprintf(stderr, "f32: %zu of %zu engines are exact\n", exact.size(),
                   all.size());
    return good;
  }

  DnnDescriptor device;
  DnnTarget target;
  void (*lastError)(char *, size_t) = nullptr;
  std::map<std::tuple<int64_t, kerf_dtype_t, kerf_dtype_t, int64_t>, int64_t>
      casts;
  std::set<std::string> known;
  std::string found;
};

/// Exits with 0, 1 after a failure, or `skipped`.
[[noreturn]] void findEngines() {
  auto skip = [](const std::string &why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::_Exit(skipped);
  };
  const Cudnn *library = nullptr;
  try {
    library = &Cudnn::get();
  } catch (const Error &error) {
    skip(error.message);
  }
  if (!library->getVersion || library->getVersion() < 90800)
    skip("devices are described from cuDNN 9.8");
  std::string folder = library->path.substr(0, library->path.rfind('/') + 1);
  if (!dlopen("libcuda.so.1", RTLD_NOW) &&
      !dlopen((folder + "stubs/libcuda.so").c_str(), RTLD_NOW) &&
      !dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW))
    skip("neither libcuda nor the toolkit's stub of it");
  DnnDescriptor device(*library, dnn::DeviceDescriptor);
  if (device.trySet(dnn::DeviceJson, dnn::TypeChar, h200, sizeof(h200) - 1) !=
          dnn::Success ||
      device.tryFinalize() != dnn::Success)
    skip("this cuDNN wants other fields of a device");
  std::_Exit(Engines(*library, std::move(device)).run());
}

TEST(ConvEnginesDeathTest, EveryCallFindsThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int code = -1;
  EXPECT_EXIT(
      findEngines(),
      [&](int status) {
        code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        return code == 0 || code == skipped;
      },
      "");
  if (code == skipped)
    GTEST_SKIP() << "no cuDNN that describes devices";
}

} // namespace
