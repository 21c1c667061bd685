//===- Sizes.cpp - --dim batch=1..8 ---------------------------------------===//
//
// Of a range the ends and the powers of two between them are compiled; of a
// list, what it has. With several open dimensions, all combinations. A size
// between two is taken by the larger one's program if the model, imported for
// that size, does the same with each sample as imported for the larger one
// (kerf/Plan/SameSamples.h): all of them are tried, so nothing is guessed.
//
//===----------------------------------------------------------------------===//
#include "Sizes.h"

#include "Explain.h"
#include "Files.h"
#include "Setup.h"

#include "kerf/Format/Schemas.h"
#include "kerf/Import/ModelImage.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Plan/SameSamples.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kerf;
using namespace kerf::tool;
namespace json = llvm::json;

/// Programs of one package: each is compiled, and takes some megabytes.
static constexpr size_t kMaxPrograms = 32;

static std::string inQuotes(const std::string &name) {
  return "\"" + name + "\"";
}

static int64_t parseSize(llvm::StringRef text, const std::string &binding) {
  int64_t size;
  if (text.getAsInteger(10, size) || size < 1)
    throw Failure{kUsage,
                  "--dim: '" + binding +
                      "', expected NAME=SIZE, NAME=LOW..HIGH or NAME=A,B,C",
                  {}};
  return size;
}

/// The sizes of which there are programs, and from where on others are taken.
static OpenSize parseOpenSize(const std::string &binding) {
  auto [name, text] = llvm::StringRef(binding).rsplit('=');
  OpenSize open;
  open.name = name.str();
  if (auto [low, high] = text.split(".."); !high.empty()) {
    int64_t first = parseSize(low, binding), last = parseSize(high, binding);
    if (first > last)
      throw Failure{kUsage,
                    "--dim: '" + binding + "': " + low.str() +
                        " is more than " + high.str(),
                    {}};
    open.low = first;
    open.sizes.push_back(first);
    for (int64_t size = 1; size < last; size *= 2)
      if (size > first)
        open.sizes.push_back(size);
    if (last > first)
      open.sizes.push_back(last);
    return open;
  }
  open.low = 1;
  for (llvm::StringRef size : llvm::split(text, ','))
    open.sizes.push_back(parseSize(size, binding));
  llvm::sort(open.sizes);
  open.sizes.erase(llvm::unique(open.sizes), open.sizes.end());
  return open;
}

/// Where an input has the dimension: it must be there once.
static void requireDim(const Options &options, const OpenSize &open) {
  ModelFacts facts;
  std::string error;
  if (!readModelFacts(options.model, facts, error))
    return; // import says more
  std::vector<std::string> names;
  for (const ModelValue &input : facts.inputs) {
    int64_t times = 0;
    for (const ModelValue::Dim &dim : input.dims) {
      times += dim.symbol == open.name;
      if (!dim.symbol.empty() && !llvm::is_contained(names, dim.symbol))
        names.push_back(dim.symbol);
    }
    if (times > 1)
      throw Failure{kUsage,
                    "--dim: " + inQuotes(open.name) + " is in input " +
                        inQuotes(input.name) +
                        " more than once, so it has one size",
                    {}};
  }
  if (!llvm::is_contained(names, open.name))
    throw Failure{kUsage,
                  "--dim: no input has a dimension " + inQuotes(open.name) +
                      ", there are: " +
                      (names.empty() ? "none" : llvm::join(names, ", ")),
                  {}};
}

void kerf::tool::takeSizes(Options &options, bool takesSizes) {
  for (std::string &binding : options.dims) {
    llvm::StringRef sizes = llvm::StringRef(binding).rsplit('=').second;
    if (!sizes.contains("..") && !sizes.contains(','))
      continue;
    OpenSize open = parseOpenSize(binding);
    if (!takesSizes)
      throw Failure{kUsage,
                    "--dim: '" + binding +
                        "': several sizes are for kerf compile, whose package "
                        "takes each of them",
                    {}};
    const char *flag = options.train               ? "--train"
                       : options.cacheLength       ? "--cache-length"
                       : !options.states.empty()   ? "--state"
                       : !options.planFile.empty() ? "--plan"
                       : !options.from.empty()     ? "--from"
                                                   : nullptr;
    if (flag)
      throw Failure{kUsage,
                    std::string(flag) + ": for one size, --dim has '" +
                        binding + "'",
                    {}};
    if (parseDevices(options.devices).kind != "cpu")
      throw Failure{kUsage,
                    "--dim: '" + binding +
                        "': several sizes are for ranks on CPUs alone",
                    {}};
    requireDim(options, open);
    binding = open.name + "=" + std::to_string(open.sizes.back());
    if (open.sizes.size() > 1)
      options.openSizes.push_back(std::move(open));
  }
  size_t programs = 1;
  for (const OpenSize &open : options.openSizes)
    programs *= open.sizes.size();
  if (programs > kMaxPrograms)
    throw Failure{kUsage,
                  "--dim: these sizes are " + std::to_string(programs) +
                      " programs, expected at most " +
                      std::to_string(kMaxPrograms) +
                      "; NAME=A,B,C says which sizes to compile",
                  {}};
}

namespace {
using Sizes = std::vector<int64_t>; // by open dimension

class SizeFinder {
public:
  explicit SizeFinder(const Options &options) : options(options) {
    ModelFacts facts;
    std::string error;
    if (readModelFacts(options.model, facts, error))
      inputs = facts.inputs;
  }
  /// Which sizes between those of `dim` are taken, and where outputs have it.
  struct Found {
    std::vector<int64_t> padded;
    json::Object outputs;
    std::string why; ///< why one is not
  };
  Found find(size_t dim);

  Options optionsFor(const Sizes &sizes) const;
  /// All combinations, the largest last.
  std::vector<Sizes> combinations() const;
  int64_t axisIn(const ModelValue &input, const std::string &name) const {
    for (auto [axis, dim] : llvm::enumerate(input.dims))
      if (dim.symbol == name)
        return static_cast<int64_t>(axis);
    return -1;
  }
  json::Object axesOfInputs(const std::string &name) const;

private:
  std::string whyNoSamples(size_t dim) const;
  std::unique_ptr<Compilation> import(const Sizes &sizes) const;
  /// Empty if `small` is taken by the program of `large`, or why it is not.
  std::string compare(size_t dim, const Sizes &small, const Compilation &large,
                      Found &found) const;

  const Options &options;
  std::vector<ModelValue> inputs;
};
} // namespace

Options SizeFinder::optionsFor(const Sizes &sizes) const {
  Options own = options;
  llvm::erase_if(own.dims, [&](const std::string &binding) {
    return llvm::any_of(options.openSizes, [&](const OpenSize &open) {
      return llvm::StringRef(binding).rsplit('=').first == open.name;
    });
  });
  for (auto [open, size] : llvm::zip_equal(options.openSizes, sizes))
    own.dims.push_back(open.name + "=" + std::to_string(size));
  own.dumpDir.clear();
  return own;
}

std::vector<Sizes> SizeFinder::combinations() const {
  std::vector<Sizes> all = {{}};
  for (const OpenSize &open : options.openSizes) {
    std::vector<Sizes> longer;
    for (const Sizes &begin : all)
      for (int64_t size : open.sizes) {
        longer.push_back(begin);
        longer.back().push_back(size);
      }
    all = std::move(longer);
  }
  return all;
}

json::Object SizeFinder::axesOfInputs(const std::string &name) const {
  json::Object axes;
  for (const ModelValue &input : inputs)
    if (int64_t axis = axisIn(input, name); axis >= 0)
      axes[input.name] = axis;
  return axes;
}

std::unique_ptr<Compilation> SizeFinder::import(const Sizes &sizes) const {
  auto compilation =
      std::make_unique<Compilation>(shapesAlone(optionsFor(sizes)));
  require(*compilation, compilation->runUntil("import"));
  return compilation;
}

static mlir::func::FuncOp mainOf(mlir::ModuleOp module) {
  return *module.getOps<mlir::func::FuncOp>().begin();
}

std::string SizeFinder::compare(size_t dim, const Sizes &small,
                                const Compilation &large, Found &found) const {
  const std::string &name = options.openSizes[dim].name;
  // Types and attributes are compared, which are one context's.
  std::string text;
  llvm::raw_string_ostream(text) << import(small)->getModule();
  auto imported = mlir::parseSourceString<mlir::ModuleOp>(
      text, large.getModule().getContext());
  if (!imported)
    throw Failure{kInternal, options.model + ": IR that cannot be read", {}};
  mlir::func::FuncOp function = mainOf(large.getModule());
  llvm::StringMap<int64_t> batchDims;
  for (const std::string &text : options.batchDims) {
    auto [input, axis] = parseBinding(text, "--batch-dim");
    batchDims[input] = axis;
  }
  std::string why;
  auto axes =
      plan::sameForEachSample(mainOf(*imported), function, batchDims, why);
  if (!axes)
    return why;
  auto nameOf = [](mlir::Attribute attr) {
    return llvm::cast<mlir::StringAttr>(attr).getValue().str();
  };
  for (auto [index, axis] : llvm::enumerate(axes->arguments)) {
    std::string input =
        nameOf(function.getArgAttr(static_cast<unsigned>(index), kNameAttr));
    auto known = llvm::find_if(
        inputs, [&](const ModelValue &value) { return value.name == input; });
    if (known == inputs.end() || axisIn(*known, name) != axis)
      return "input " + inQuotes(input) + " is not one of samples along it";
  }
  for (auto [index, axis] : llvm::enumerate(axes->results))
    if (axis >= 0)
      found.outputs[nameOf(function.getResultAttr(static_cast<unsigned>(index),
                                                  kNameAttr))] = axis;
  return "";
}

/// Empty, or why the dimension is not that of samples, whose rows alone do not
/// see each other.
std::string SizeFinder::whyNoSamples(size_t dim) const {
  const std::string &name = options.openSizes[dim].name;
  std::unique_ptr<Compilation> largest = import(combinations().back());
  mlir::func::FuncOp function = mainOf(largest->getModule());
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto called = function.getArgAttrOfType<mlir::StringAttr>(i, kNameAttr);
    auto samples =
        function.getArgAttrOfType<mlir::IntegerAttr>(i, kBatchDimAttr);
    for (const ModelValue &input : inputs)
      if (int64_t axis = axisIn(input, name);
          input.name == called.getValue() && axis >= 0 &&
          (!samples || samples.getInt() != axis))
        return "it does not count samples, which alone are known not to see "
               "each other";
  }
  return "";
}

SizeFinder::Found SizeFinder::find(size_t dim) {
  const OpenSize &open = options.openSizes[dim];
  Found found;
  // Of the other dimensions, every size that is compiled.
  std::vector<Sizes> others;
  for (const Sizes &sizes : combinations())
    if (sizes[dim] == open.sizes.back())
      others.push_back(sizes);
  for (int64_t target : open.sizes) {
    int64_t begin = std::max<int64_t>(2, open.low);
    for (int64_t size : open.sizes)
      if (size < target)
        begin = std::max(begin, size + 1);
    if (begin >= target)
      continue;
    if (found.why = whyNoSamples(dim); !found.why.empty())
      return found;
    std::vector<std::unique_ptr<Compilation>> large;
    for (Sizes sizes : others) {
      sizes[dim] = target;
      large.push_back(import(sizes));
    }
    for (int64_t size = begin; size < target; ++size) {
      for (auto [sizes, program] : llvm::zip_equal(others, large)) {
        Sizes small = sizes;
        small[dim] = size;
        found.why = compare(dim, small, *program, found);
        if (!found.why.empty())
          return found;
      }
      found.padded.push_back(size);
    }
  }
  return found;
}

OtherSizes kerf::tool::compileOtherSizes(const Options &options,
                                         const Compilation &largest) {
  OtherSizes result;
  if (options.openSizes.empty())
    return result;
  SizeFinder finder(options);
  json::Array programs;
  std::vector<Sizes> all = finder.combinations();
  for (const Sizes &sizes : all) {
    if (sizes == all.back()) { // the package's own
      programs.push_back(json::Object{{"sizes", json::Array(sizes)}});
      continue;
    }
    std::string name = "program";
    for (int64_t size : sizes)
      name += "-" + std::to_string(size);
    programs.push_back(
        json::Object{{"name", name}, {"sizes", json::Array(sizes)}});
    CompilationOptions compile = compilationOptions(finder.optionsFor(sizes));
    compile.weightsInPlace = options.weightsInPlace;
    auto program = std::make_unique<Compilation>(std::move(compile));
    require(*program, program->runUntil("lower"));
    result.programs.emplace_back(name, std::move(program));
  }
  json::Array dims;
  for (auto [index, open] : llvm::enumerate(options.openSizes)) {
    SizeFinder::Found found = finder.find(index);
    std::string note = "dimension " + inQuotes(open.name) + ": programs for " +
                       llvm::join(llvm::map_range(open.sizes,
                                                  [](int64_t size) {
                                                    return std::to_string(size);
                                                  }),
                                  ", ");
    if (!found.padded.empty())
      note += "; what is between is filled up";
    if (!found.why.empty())
      note += "; no other size is taken: " + found.why;
    result.notes.push_back(note);
    dims.push_back(json::Object{{"name", open.name},
                                {"inputs", finder.axesOfInputs(open.name)},
                                {"outputs", std::move(found.outputs)},
                                {"sizes", json::Array(open.sizes)},
                                {"padded", json::Array(found.padded)}});
  }
  json::Object root{{"schema", sizesSchema.text()},
                    {"dims", std::move(dims)},
                    {"programs", std::move(programs)}};
  result.json = llvm::formatv("{0:2}\n", json::Value(std::move(root))).str();
  return result;
}
