//===- Train.cpp - train --------------------------------------------------===//
//
// In a job rank 0 compiles. The model is compiled into a package of one
// training step (and, for evaluation, one of the model alone for one rank),
// both with their weights in the model's file; then the loop of kerf/rt/train.h
// runs. All checks that need no compilation come first.
//
//===----------------------------------------------------------------------===//
#include "../SpellFlags.h"
#include "Commands.h"
#include "Progress.h"
#include "Setup.h"
#include "options/LastBatch.h"
#include "options/SampleDims.h"
#include "report/Trained.h"

#include "kerf/Import/ModelImage.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Plan/MeshText.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/stop.h"
#include "kerf/rt/train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <csignal>
#include <set>

using namespace kerf;
using namespace kerf::tool;

namespace {
// Global, since a signal handler has no other access.
volatile std::sig_atomic_t stopSignal = 0;

/// The model imported for inference, with its batch size bound.
struct Model {
  explicit Model(Options &options);
  std::unique_ptr<Compilation> compilation;
  /// Inputs that have no samples.
  std::vector<std::string> sharedInputs;
  /// The shape of an output; empty if there is none of the name.
  std::vector<int64_t> shapeOf(const std::string &output) const;
  /// Inputs that a loss of the graph takes as labels, and their range.
  void describeLabels(rt::TrainLoss &loss) const;
  mlir::func::FuncOp main() const {
    return compilation->getModule().lookupSymbol<mlir::func::FuncOp>("main");
  }
};
} // namespace

Model::Model(Options &options) {
  auto import = [&] {
    CompilationOptions compile = compilationOptions(options);
    compile.import.trainingForms = ImportOptions::TrainingForms::AsInference;
    compilation = std::make_unique<Compilation>(std::move(compile));
    return compilation->runImport();
  };
  Outcome outcome = import();
  size_t bound = options.dims.size();
  bindSizes(options, compilation->getImportReport());
  if (options.dims.size() != bound)
    outcome = import();
  const ImportReport &report = compilation->getImportReport();
  for (const ModelValue &input : report.inputs)
    if (options.batchSize == 0 && !input.dims.empty() &&
        llvm::is_contained(report.unboundDims, input.dims[0].symbol))
      throw Failure{kUsage,
                    options.model + ": dimension \"" + input.dims[0].symbol +
                        "\" of input \"" + input.name +
                        "\" is the batch: give --batch-size=B",
                    {}};
  require(*compilation, outcome);
  auto main = compilation->getModule().lookupSymbol<mlir::func::FuncOp>("main");
  // An input that does not begin with the samples of the others is the same in
  // every step, which must be said.
  std::optional<int64_t> samples;
  for (unsigned i = 0; i < main.getNumArguments() && !samples; ++i)
    if (auto dim = main.getArgAttrOfType<mlir::IntegerAttr>(i, kBatchDimAttr))
      samples = llvm::cast<mlir::RankedTensorType>(main.getArgumentTypes()[i])
                    .getDimSize(static_cast<unsigned>(dim.getInt()));
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto dim = main.getArgAttrOfType<mlir::IntegerAttr>(i, kBatchDimAttr);
    if (!dim) {
      auto name = main.getArgAttrOfType<mlir::StringAttr>(i, kNameAttr).str();
      auto shape =
          llvm::cast<mlir::RankedTensorType>(main.getArgumentTypes()[i])
              .getShape();
      if (isSaidToBeShared(compilationOptions(options).import, name))
        sharedInputs.push_back(name);
      else if (samples && !shape.empty())
        refuseUntold(options.model, name, shape[0], *samples);
      continue;
    }
    if (dim.getInt() > 0)
      refuseBatch(main.getArgAttrOfType<mlir::StringAttr>(i, kNameAttr).str(),
                  dim.getInt());
    int64_t batch =
        llvm::cast<mlir::RankedTensorType>(main.getArgumentTypes()[i])
            .getDimSize(static_cast<unsigned>(dim.getInt()));
    if (batch % std::max<int64_t>(options.accumulate, 1) != 0)
      throw Failure{kUsage,
                    "--accumulate: " + std::to_string(options.accumulate) +
                        " does not divide the batch of " +
                        std::to_string(batch) +
                        plan::divisorsText(batch, options.accumulate),
                    {}};
  }
  requireSamplesApart(options, report);
  noteSquare(options, report, main);
  // The batch was given by --dim.
  if (options.batchSize > 0)
    for (auto [i, type] : llvm::enumerate(main.getArgumentTypes())) {
      auto shape = llvm::cast<mlir::RankedTensorType>(type).getShape();
      auto name = main.getArgAttrOfType<mlir::StringAttr>(i, kNameAttr);
      if (name && !shape.empty() && shape[0] != options.batchSize &&
          !llvm::is_contained(sharedInputs, name.getValue()))
        throw Failure{kUsage,
                      "--batch-size is " + std::to_string(options.batchSize) +
                          ", input \"" + name.getValue().str() +
                          "\" has a batch of " + std::to_string(shape[0]) +
                          (bound > 0 ? " by --dim" : ""),
                      bound > 0 ? std::vector<std::string>()
                                : hintOnShared(name.str(), shape[0])};
    }
}

std::vector<int64_t> Model::shapeOf(const std::string &output) const {
  mlir::func::FuncOp function = main();
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (auto name =
            function.getResultAttrOfType<mlir::StringAttr>(i, kNameAttr);
        name && name.getValue() == output)
      return llvm::cast<mlir::RankedTensorType>(type).getShape().vec();
  return {};
}

/// Labels that are an output of the model are no data, unless the data has
/// them.
static void refuseOutputs(const Model &model, const Options &options,
                          const rt::TrainLoss &loss) {
  if (loss.isScalar() || loss.labels.size() != 1)
    return;
  const std::string &labels = loss.labels.front();
  const ImportReport &report = model.compilation->getImportReport();
  auto has = [](const std::vector<ModelValue> &values,
                const std::string &name) {
    return llvm::any_of(
        values, [&](const ModelValue &value) { return value.name == name; });
  };
  if (!has(report.outputs, labels) || has(report.inputs, labels) ||
      !has(report.outputs, loss.output)) // else the names are swapped
    return;
  rt::InputSpec spec;
  spec.name = labels;
  spec.shape = model.shapeOf(labels);
  std::vector<std::optional<rt::GivenInput>> given;
  std::string error;
  bool isFound = !spec.shape.empty() &&
                 (!rt::matchData(options.data, {spec}, given, error) ||
                  given.empty() || given[0]);
  if (!isFound)
    throw Failure{kUsage,
                  options.data + ": no array for labels \"" + labels +
                      "\", which is an output of the model: a loss holds an "
                      "output against data",
                  {"of two outputs the model computes the loss, as an output "
                   "of one number: --loss=NAME"}};
}

/// The size of the classes' dimension; 0 if there is none.
static int64_t classesOf(const rt::TrainLoss &loss) {
  int64_t rank = loss.outputShape.size();
  int64_t dim = loss.classDim < 0 ? rank + loss.classDim : loss.classDim;
  return 0 <= dim && dim < rank ? loss.outputShape[dim] : 0;
}

void Model::describeLabels(rt::TrainLoss &loss) const {
  auto main = compilation->getModule().lookupSymbol<mlir::func::FuncOp>("main");
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto range = main.getArgAttrOfType<mlir::ArrayAttr>(i, kRangeAttr);
    if (!range)
      continue;
    auto bound = llvm::cast<mlir::IntegerAttr>(range[1]).getInt();
    auto ignored =
        main.getArgAttrOfType<mlir::IntegerAttr>(i, kIgnoreIndexAttr);
    // Labels of another kind are left to the program's own check.
    if (!loss.labels.empty() &&
        (bound != loss.classes || bool(ignored) != loss.ignores ||
         (ignored && ignored.getInt() != loss.ignoreIndex)))
      continue;
    loss.classes = bound;
    loss.ignores = bool(ignored);
    if (ignored)
      loss.ignoreIndex = ignored.getInt();
    loss.labels.push_back(
        main.getArgAttrOfType<mlir::StringAttr>(i, kNameAttr).str());
  }
}

/// Options of one device without a plan, for the model that is evaluated.
static Options forEvaluation(const Options &options) {
  Options own = options;
  own.devices = "1";
  own.mesh = own.planFile = own.memoryLimit = own.machine = own.dumpDir = "";
  own.shards.clear();
  own.solver = "auto";
  own.microBatches = 0;
  own.train = false;
  own.precision = "f32";
  return own;
}

/// The name of a trained model's external data is derived from the model's:
/// model.onnx.data becomes trained.onnx.data, weights.bin
/// trained.onnx.weights.bin. Under its own name it would replace that of the
/// model itself, or of what was trained into the same folder before.
static std::map<std::string, std::string>
renamedData(const std::string &model, const rt::TrainOptions &loop) {
  namespace path = llvm::sys::path;
  std::map<std::string, std::string> names;
  std::string error;
  ModelFacts facts;
  readModelFacts(model, facts, error);
  llvm::StringRef own = path::filename(loop.modelFiles[0]);
  std::string output = path::filename(loop.output).str();
  for (const std::string &location : facts.locations) {
    llvm::SmallString<256> plain(location);
    path::remove_dots(plain);
    llvm::StringRef rest = plain;
    names[location] = rest.consume_front(own) ? output + rest.str()
                                              : output + "." + rest.str();
  }
  return names;
}

/// The file of a trained model: tensors that were copied and trained separately
/// (Untie.h) are initializers of their own, and of those that were trained as
/// one (Join.h) it has one.
static void describeImage(const ImportReport &report, rt::TrainOptions &loop) {
  std::set<std::string> trained;
  for (const std::string &label : loop.trained)
    trained.insert(label.substr(0, label.find('@')));
  ModelEdits edits;
  for (const UntiedCopy &copy : report.untied)
    if (trained.count(copy.name) || trained.count(copy.original))
      edits.copies.push_back(copy);
  for (const JoinedRead &read : report.joined)
    if (trained.count(read.name))
      edits.joined.push_back(read);
  edits.locations = renamedData(report.file, loop);
  std::string folder =
      llvm::sys::path::parent_path(loop.modelFiles[0]).str() + "/";
  for (const auto &[location, name] : edits.locations) {
    llvm::SmallString<256> file(folder + location);
    llvm::sys::path::remove_dots(file, /*remove_dot_dot=*/false);
    loop.dataNames[file.str().str()] = name;
  }
  ModelImage image;
  std::string error;
  if (!makeModelImage(report.file, edits, image, error))
    throw Failure{kModelRefused,
                  report.file +
                      ": the trained model cannot be written: " + error,
                  {}};
  for (ModelImage::Piece &piece : image.pieces)
    loop.image.push_back({piece.begin, piece.length, std::move(piece.bytes)});
  loop.copies = std::move(image.copies);
}

/// Compiles into `path`; `loop` gets the parameters that a training step
/// trains.
static void package(const Options &options, const std::string &path,
                    rt::TrainOptions *loop) {
  CompilationOptions compile = compilationOptions(options);
  compile.weightsInPlace = true;
  compile.callerBytes =
      rt::unpackedBytes(options.data) + rt::unpackedBytes(options.evalData);
  if (!options.train) { // for evaluation: weights as in training
    compile.import.trainingForms = ImportOptions::TrainingForms::AsInference;
    compile.import.smallWeights = true;
    compile.import.scalarWeights = namesOf(options.trainable);
    compile.import.untie = true;
    compile.import.tied = options.tied;
  }
  Progress progress(options, compile);
  Compilation compilation(std::move(compile));
  require(compilation, compilation.runUntil("lower"));
  require(compilation, packageInto(compilation, path));
  progress.finish();
  auto list =
      compilation.getModule()->getAttrOfType<mlir::ArrayAttr>(kFilesAttr);
  if (!loop)
    return;
  loop->shapes = compilation.getImportReport().parameterShapes;
  llvm::append_range(loop->notes,
                     describeTrained(compilation.getTraining(), loop->shapes,
                                     options.verbose));
  llvm::append_range(loop->notes, notesOf(compilation, options));
  if (std::string text =
          runsAs(options, compilation, /*folder=*/"", progress.wasStopped());
      !text.empty())
    loop->notes.push_back(std::move(text));
  // What is noted on the plan is not why data are refused.
  for (const auto &notes :
       {compilation.getImportReport().notes, compilation.getTraining().notes})
    for (const std::string &note : notes)
      loop->hints.push_back(spellFlags(note));
  for (mlir::Attribute file : list)
    loop->modelFiles.push_back(
        llvm::cast<mlir::StringAttr>(file).getValue().str());
  for (const auto &parameter : compilation.getTraining().trained)
    loop->trained.push_back(parameter.name);
  for (const std::string &buffer : compilation.getTraining().buffers)
    loop->trained.push_back(buffer);
  if (!loop->output.empty())
    describeImage(compilation.getImportReport(), *loop);
}

/// Gives the loop what it needs of loss and optimizer.
static void describeStep(const Options &o, rt::TrainOptions &t) {
  const autodiff::AutodiffOptions step = *compilationOptions(o).training;
  t.loss.name = step.loss.name;
  t.loss.options = step.loss.options;
  t.loss.output = step.loss.prediction;
  if (!step.loss.target.empty())
    t.loss.labels = {step.loss.target};
  t.loss.ignoreIndex = step.loss.ignoreIndex;
  t.loss.classDim = step.loss.classDim;
  t.loss.text = step.loss.text;
  t.loss.classWeights = step.loss.classWeights;
  t.rate.base = step.optimizer.learningRate;
  t.beta1 = step.optimizer.option("beta1");
  t.beta2 = step.optimizer.option("beta2");
  t.dampening = step.optimizer.option("dampening");
  t.recipe = {{"optimizer", optimizerText(step.optimizer)},
              {"loss", step.loss.text},
              {"precision", o.precision},
              {"clip_norm", clipText(o.clipNorm)}};
  if (o.learningRate.empty())
    return;
  std::string wrong = rt::parseLearningRate(o.learningRate, t.rate);
  if (!wrong.empty())
    throw Failure{kUsage, "--learning-rate: " + wrong, {}};
}

static rt::TrainOptions loopOptions(const Options &o) {
  rt::TrainOptions t;
  t.model = o.model;
  t.data = o.data;
  t.evalData = o.evalData;
  t.sequenceLength = o.sequenceLength;
  t.evalEvery = o.evalEvery;
  t.shuffle = o.shuffle == "on";
  t.keepLast = o.lastBatch == "keep";
  t.seed = o.seed;
  // Of a random plan the seed has changed something by then.
  t.seedGiven = o.seedGiven && o.solver != "random";
  t.steps = o.steps;
  t.epochs = o.epochs;
  t.skipNan = o.onNan == "skip";
  t.lossScale = static_cast<double>(o.lossScale);
  t.lossScaleInterval = o.lossScaleInterval;
  t.output = o.output;
  t.safetensors = o.safetensors;
  t.log = o.log;
  t.trace = o.trace;
  t.stats = o.stats;
  t.checkpointDir = o.checkpointDir;
  t.checkpointEvery = o.checkpointEvery;
  t.resume = o.resume;
  t.threads = static_cast<int32_t>(o.threads);
  t.timeoutSeconds = o.timeout;
  t.inject = o.inject;
  t.json = o.json;
  t.quiet = o.quiet;
  t.verbose = o.verbose;
  t.stop = &stopSignal;
  if (o.precision != "f16" && (o.lossScale > 0 || o.lossScaleInterval > 0))
    throw Failure{kUsage,
                  "--loss-scale and --loss-scale-interval are of "
                  "--precision=f16",
                  {}};
  if (o.evalEvery > 0 && o.evalData.empty())
    throw Failure{kUsage, "--eval-every needs --eval-data", {}};
  return t;
}

/// Names the output if no option says where the trained model goes: a file in
/// the current folder, so that no trained model is lost. Returns whether.
static bool nameOutput(Options &options) {
  if (!options.output.empty() || options.noOutput ||
      !options.safetensors.empty() || !options.checkpointDir.empty() ||
      !options.stopAfter.empty())
    return false;
  options.output = llvm::sys::path::stem(options.model).str() + ".trained.onnx";
  return true;
}

/// A file of another format than its name says: the format follows from the
/// flag.
static void noteNames(const Options &options, std::vector<std::string> &notes) {
  auto endsIn = [](llvm::StringRef file,
                   std::initializer_list<llvm::StringRef> endings) {
    return llvm::any_of(endings, [&](llvm::StringRef ending) {
      return file.ends_with_insensitive(ending);
    });
  };
  auto note = [&](const std::string &file, const char *format,
                  const std::string &instead) {
    const char *reads = endsIn(file, {".pt", ".pth"})
                            ? ", which torch.load does not read"
                            : ", whatever its name says";
    notes.push_back(file + " will be " + format + reads + instead);
  };
  bool isOfWeights =
      endsIn(options.output, {".pt", ".pth", ".ckpt", ".safetensors"});
  if (isOfWeights ||
      endsIn(options.output, {".bin", ".npz", ".npy", ".h5", ".pkl", ".gguf",
                              ".kerf", ".json", ".pb", ".tflite"}))
    note(options.output, "an ONNX model",
         isOfWeights && options.safetensors.empty()
             ? " (--save-safetensors=FILE writes its weights)"
             : "");
  if (endsIn(options.safetensors,
             {".pt", ".pth", ".ckpt", ".onnx", ".bin", ".npz", ".npy", ".h5",
              ".pkl", ".gguf", ".kerf", ".json", ".pb", ".tflite"}))
    note(options.safetensors, "a safetensors file",
         endsIn(options.safetensors, {".onnx"}) && options.output.empty()
             ? " (-o FILE writes the model)"
             : "");
}

/// Names all that is missing at once.
static void requireStep(const Options &options) {
  std::string missing;
  int64_t count = 0;
  auto require = [&](const std::string &value, const char *how) {
    if (!value.empty())
      return;
    missing += (count++ ? ", " : "") + std::string(how);
  };
  require(options.data, "--data=FILE.npz");
  require(options.loss, "--loss='cross_entropy(logits,labels)'");
  require(options.optimizer, "--optimizer=adamw,lr=3e-4");
  if (count > 0)
    throw Failure{kUsage,
                  count > 1 ? "flags are missing: " + missing
                            : missing.substr(0, missing.find('=')) +
                                  " is missing, expected as " + missing,
                  {"see kerf train --help"}};
}

static int trainInJob(Options &options, rt::JobScope &job) {
  options.train = true;
  requireStep(options);
  bool isNamed = nameOutput(options);
  rt::TrainOptions loop = loopOptions(options);
  describeStep(options, loop);
  std::string wrong = rt::checkTrainOptions(loop, job.leads());
  if (!wrong.empty())
    throw Failure{kUsage, wrong, {}};
  std::optional<TemporaryFolder> temporary;
  std::optional<rt::StopNote> early; // until the loop takes signals
  openTemporary(temporary, early, !job);
  const TemporaryFolder &folder = *temporary;
  if (job.leads()) {
    Options inference = options;
    inference.train = false;
    takeData(inference);
    Model model(inference);
    options.dims = inference.dims;
    loop.sharedInputs = model.sharedInputs;
    refuseOutputs(model, options, loop.loss);
    loop.loss.outputShape = model.shapeOf(loop.loss.output);
    if (loop.loss.hasClasses())
      loop.loss.classes = classesOf(loop.loss);
    else if (loop.loss.isScalar())
      model.describeLabels(loop.loss);
    loop.joins = whatCountsFilling(model.main(), loop.loss);
    // It is said again where data are refused.
    if (std::string text =
            takenForSamples(options, model.compilation->getImportReport());
        !text.empty())
      loop.notes.push_back(text), loop.hints.push_back(text);
  }
  if (!options.stopAfter.empty()) {
    Compilation compilation(compilationOptions(options));
    stopAfter(compilation, options);
    return kFine;
  }
  if (isNamed)
    loop.notes.push_back("the trained model goes to " + options.output +
                         " (-o FILE says where, --no-output keeps none)");
  else if (options.output.empty() && options.safetensors.empty() &&
           !options.noOutput)
    loop.notes.push_back("no trained model is written: checkpoints go to " +
                         options.checkpointDir +
                         " (-o FILE writes the model as well)");
  noteNames(options, loop.notes);
  loop.package = folder.file("train.kerf");
  if (job.leads())
    package(options, loop.package, &loop);
  else
    llvm::sys::fs::create_directory(loop.package);
  requireStatus(job.shareFolder(loop.package));
  std::string classes = std::to_string(loop.loss.classes);
  requireStatus(job.share(classes));
  loop.loss.classes = std::stoll(classes);
  std::string sizes = llvm::join(
      llvm::map_range(loop.loss.outputShape,
                      [](int64_t size) { return std::to_string(size); }),
      "x");
  requireStatus(job.share(sizes));
  loop.loss.outputShape.clear();
  for (llvm::StringRef size : llvm::split(sizes, 'x'))
    if (!size.empty())
      loop.loss.outputShape.push_back(std::stoll(size.str()));
  requireStatus(job.share(loop.joins));
  std::string shared = llvm::join(loop.sharedInputs, "\n");
  requireStatus(job.share(shared));
  loop.sharedInputs.clear();
  for (llvm::StringRef name : llvm::split(shared, '\n'))
    if (!name.empty())
      loop.sharedInputs.push_back(name.str());
  if (!loop.evalData.empty() && job.leads()) {
    loop.evalPackage = folder.file("eval.kerf");
    package(forEvaluation(options), loop.evalPackage, nullptr);
  }
  early.reset();
  // They end the run after its step.
  rt::StopScope stop([](int signal) { stopSignal = signal; },
                     {/*termination=*/true, /*whatIsIgnored=*/true,
                      /*restarts=*/false});
  if (startsProcesses(options, job))
    return rt::runProcesses(
        static_cast<int32_t>(parseDevices(options.devices).count),
        [&] { return rt::trainPackage(loop, stdout, onStderr()); }, onStderr());
  return rt::trainPackage(loop, job, stdout, onStderr());
}

int kerf::tool::train(const Options &given) {
  // A signal ends training after the step, unless mpirun is ending the job.
  return withJob(given, /*takesPackages=*/false, /*handlesTermination=*/true,
                 trainInJob);
}
