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

#include "../Setup.h"
#include "../files/Files.h"
#include "../report/Explain.h"

#include "kerf/Format/Schemas.h"
#include "kerf/Import/ModelImage.h"
#include "kerf/Plan/SameSamples.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kerf;
using namespace kerf::tool;
namespace json = llvm::json;

/// Programs of one package: each is compiled, and takes some megabytes.
static constexpr size_t kMaxPrograms = 32;
/// Sizes between those of programs: for each the model is imported.
static constexpr size_t kMaxCompared = 1000;

static std::string inQuotes(const std::string &name) {
  return "\"" + name + "\"";
}

[[noreturn]] static void refuseForm(const std::string &binding) {
  throw Failure{kUsage,
                "--dim: '" + binding +
                    "', expected NAME=SIZE, NAME=LOW..HIGH or NAME=A,B,C",
                {}};
}

static int64_t parseSize(llvm::StringRef text, const std::string &binding) {
  int64_t size;
  if (text.getAsInteger(10, size))
    refuseForm(binding);
  if (size < 1)
    throw Failure{kUsage,
                  "--dim: '" + binding + "' has size " + text.str() +
                      ", expected at least 1",
                  {}};
  return size;
}

/// The sizes of which there are programs.
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
    open.sizes.push_back(first);
    for (int64_t size = 1; size < last; size *= 2)
      if (size > first)
        open.sizes.push_back(size);
    if (last > first)
      open.sizes.push_back(last);
    return open;
  }
  for (llvm::StringRef size : llvm::split(text, ','))
    open.sizes.push_back(parseSize(size, binding));
  llvm::sort(open.sizes);
  if (auto twice = std::adjacent_find(open.sizes.begin(), open.sizes.end());
      twice != open.sizes.end())
    throw Failure{kUsage,
                  "--dim: '" + binding + "': " + std::to_string(*twice) +
                      " is given twice",
                  {}};
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

/// A dimension that is bound once to several sizes is bound nowhere else.
static void requireOnce(const std::vector<std::string> &dims,
                        const std::string &binding) {
  llvm::StringRef name = llvm::StringRef(binding).rsplit('=').first;
  for (const std::string &other : dims)
    if (&other != &binding && llvm::StringRef(other).rsplit('=').first == name)
      throw Failure{kUsage,
                    "--dim: " + inQuotes(name.str()) + " is given twice, as '" +
                        binding + "' and '" + other + "'",
                    {}};
}

/// "1-8" and "1:8" are meant as ranges.
static bool isMisspelt(llvm::StringRef sizes) {
  auto [low, high] = sizes.split(sizes.contains(':') ? ':' : '-');
  int64_t size;
  return !low.getAsInteger(10, size) && !high.getAsInteger(10, size);
}

void kerf::tool::takeSizes(Options &options, bool takesSizes) {
  for (std::string &binding : options.dims) {
    llvm::StringRef sizes = llvm::StringRef(binding).rsplit('=').second;
    if (isMisspelt(sizes))
      refuseForm(binding);
    if (!sizes.contains("..") && !sizes.contains(','))
      continue;
    requireOnce(options.dims, binding);
    OpenSize open = parseOpenSize(binding);
    if (!takesSizes)
      throw Failure{kUsage,
                    "--dim: '" + binding +
                        "': several sizes are for kerf compile, whose package "
                        "takes each of them",
                    {}};
    const char *flag = options.train                ? "--train"
                       : options.cacheLength        ? "--cache-length"
                       : !options.states.empty()    ? "--state"
                       : !options.planFile.empty()  ? "--plan"
                       : !options.from.empty()      ? "--from"
                       : !options.stopAfter.empty() ? "--stop-after"
                       : !options.dumpDir.empty()   ? "--dump-dir"
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
    plan::AxesByName outputs;
    int64_t refused = 0; ///< the first that is not; 0: none, or all
    std::string why;     ///< why it is not
  };
  Found find(size_t dim);

  Options optionsFor(const Sizes &sizes) const;
  /// All combinations, the largest last.
  std::vector<Sizes> combinations() const;
  /// Where the inputs have the open dimension.
  plan::AxesByName axesOfInputs(size_t dim) const;

private:
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

plan::AxesByName SizeFinder::axesOfInputs(size_t dim) const {
  plan::AxesByName axes;
  for (const ModelValue &input : inputs) {
    auto found = llvm::find_if(input.dims, [&](const ModelValue::Dim &each) {
      return each.symbol == options.openSizes[dim].name;
    });
    axes[input.name] =
        found == input.dims.end() ? -1 : found - input.dims.begin();
  }
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
  // Types and attributes are compared, which are one context's.
  std::string text;
  try {
    llvm::raw_string_ostream(text) << import(small)->getModule();
  } catch (const Failure &failure) { // a size that the model does not take
    return failure.message.empty() && !failure.notes.empty()
               ? failure.notes.front()
               : failure.message;
  }
  auto imported = mlir::parseSourceString<mlir::ModuleOp>(
      text, large.getModule().getContext());
  if (!imported)
    throw Failure{kInternal, options.model + ": IR that cannot be read", {}};
  llvm::StringMap<int64_t> batchDims;
  for (const std::string &text : options.batchDims) {
    auto [input, axis] = parseBinding(text, "--batch-dim");
    batchDims[input] = axis;
  }
  return plan::whyNotSameForEachSample(mainOf(*imported),
                                       mainOf(large.getModule()), batchDims,
                                       axesOfInputs(dim), found.outputs);
}

SizeFinder::Found SizeFinder::find(size_t dim) {
  const OpenSize &open = options.openSizes[dim];
  Found found;
  // Of the other dimensions, every size that is compiled.
  std::vector<Sizes> others;
  for (const Sizes &sizes : combinations())
    if (sizes[dim] == open.sizes.back())
      others.push_back(sizes);
  // By size: the one whose program could take it.
  std::vector<std::pair<int64_t, int64_t>> between;
  for (size_t next = 1; next < open.sizes.size(); ++next)
    for (int64_t size = std::max<int64_t>(2, open.sizes[next - 1] + 1);
         size < open.sizes[next] && between.size() <= kMaxCompared; ++size)
      between.emplace_back(size, open.sizes[next]);
  if (between.empty())
    return found;
  found.why = plan::whyNoSamples(
      mainOf(import(combinations().back())->getModule()), axesOfInputs(dim));
  if (!found.why.empty())
    return found;
  if (between.size() * others.size() > kMaxCompared) {
    found.why = "each would have to be compared, which is done for " +
                std::to_string(kMaxCompared) + " at most";
    return found;
  }
  std::vector<std::unique_ptr<Compilation>> large;
  int64_t last = 0;
  for (auto [size, target] : between) {
    if (std::exchange(last, target) != target) {
      large.clear();
      for (Sizes sizes : others) {
        sizes[dim] = target;
        large.push_back(import(sizes));
      }
    }
    std::string why;
    for (auto [sizes, program] : llvm::zip_equal(others, large)) {
      Sizes small = sizes;
      small[dim] = size;
      if (why.empty())
        why = compare(dim, small, *program, found);
    }
    if (why.empty())
      found.padded.push_back(size);
    else if (found.why.empty())
      std::tie(found.refused, found.why) = std::pair(size, why);
    // Most likely none is, as samples see each other.
    if (found.padded.empty() && found.refused > 0 && size - found.refused >= 3)
      break;
  }
  return found;
}

/// "batch=2,seq=16".
static std::string bindingsOf(const Options &options, const Sizes &sizes) {
  std::string text;
  for (auto [open, size] : llvm::zip_equal(options.openSizes, sizes))
    text += (text.empty() ? "" : ",") + open.name + "=" + std::to_string(size);
  return text;
}

static std::string listed(const std::vector<int64_t> &sizes) {
  return llvm::join(
      llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); }),
      ", ");
}

/// What becomes of the sizes between.
static std::string textOf(const SizeFinder::Found &found) {
  if (found.why.empty())
    return found.padded.empty() ? "" : "; what is between is filled up";
  std::string why = " (";
  if (found.refused > 0)
    why += std::to_string(found.refused) + ": ";
  why += found.why + ")";
  if (found.padded.empty())
    return "; no other size is taken" + why;
  return "; of what is between " +
         (found.padded.size() <= 12
              ? listed(found.padded) +
                    (found.padded.size() == 1 ? " is" : " are") + " filled up"
              : std::to_string(found.padded.size()) + " sizes are filled up") +
         ", others not" + why;
}

static json::Object axesObject(const plan::AxesByName &axes) {
  json::Object object;
  for (const auto &entry : axes)
    if (entry.second >= 0)
      object[entry.first().str()] = entry.second;
  return object;
}

OtherSizes kerf::tool::compileOtherSizes(const Options &options) {
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
    try {
      require(*program, program->runUntil("lower"));
    } catch (Failure &failure) {
      failure.notes.push_back("with --dim " + bindingsOf(options, sizes));
      throw;
    }
    result.programs.emplace_back(name, std::move(program));
  }
  json::Array dims;
  for (auto [index, open] : llvm::enumerate(options.openSizes)) {
    SizeFinder::Found found = finder.find(index);
    result.notes.push_back("dimension " + inQuotes(open.name) +
                           ": programs for " + listed(open.sizes) +
                           textOf(found));
    dims.push_back(
        json::Object{{"name", open.name},
                     {"inputs", axesObject(finder.axesOfInputs(index))},
                     {"outputs", axesObject(found.outputs)},
                     {"sizes", json::Array(open.sizes)},
                     {"padded", json::Array(found.padded)}});
  }
  json::Object root{{"schema", sizesSchema.text()},
                    {"dims", std::move(dims)},
                    {"programs", std::move(programs)}};
  result.json = llvm::formatv("{0:2}\n", json::Value(std::move(root))).str();
  return result;
}
