//===- Files.cpp - files that a command reads and writes ------------------===//
//
// The options of all commands are in one struct, and those of other commands
// are empty, so one list covers all of them: a flag that names a file must be
// in it to be checked. Further files that training writes are known once the
// model is imported, and checked then (rt::checkTrainOptions).
//
//===----------------------------------------------------------------------===//
#include "Files.h"

#include "../Setup.h"
#include "FileKinds.h"

#include "kerf/Import/ModelImage.h"
#include "kerf/Package/Package.h"
#include "kerf/rt/files.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/run.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace kerf;
using namespace kerf::tool;

/// "x.npy" of "NAME=@x.npy".
static std::string fileOf(const std::string &binding) {
  size_t at = binding.find("=@");
  return at == std::string::npos ? "" : binding.substr(at + 2);
}

/// The model's files, and what its outputs are called.
static std::vector<std::string> readModel(const std::string &model,
                                          rt::UsedFiles &files) {
  files.reads("the model", model);
  ModelFacts facts;
  std::string error; // ignored: the importer has a better message
  if (isPackage(model) || !readModelFacts(model, facts, error))
    return {};
  llvm::StringRef folder = llvm::sys::path::parent_path(model);
  for (const std::string &location : facts.locations) {
    llvm::SmallString<256> path(folder);
    llvm::sys::path::append(path, location);
    files.reads("the model's external data", path.str().str());
  }
  return rt::outputFileNames(facts.outputs);
}

/// A plan or the report of a run where a model is expected is a slip of the
/// command line, and no broken model.
static void refuseOwnJson(const std::string &path) {
  std::string kind = fileKind(path);
  bool isArrays = llvm::sys::path::extension(path) == ".npz";
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  std::vector<std::string> notes;
  if (kind == kPlan)
    notes = {"--plan=" + path +
             " behind a model uses it; kerf report shows it"};
  else if (kind == kRunReport)
    notes = {"kerf report shows it"};
  else if (kind == kArray || (kind == kArchive && isArrays))
    notes = {"behind a model it gives inputs: --input=" +
             std::string(isArrays ? "@" : "NAME=@") + path + " of kerf run" +
             (isArrays ? ", --data=" + path + " of kerf train" : "")};
  else if (kind == kSafetensors)
    notes = {"it holds weights without a graph; torch.onnx.export writes ONNX"};
  else if (kind != kOnnxModel &&
           llvm::sys::fs::exists(folder + "/manifest.json") &&
           llvm::sys::path::extension(path) != ".onnx")
    throw Failure{kUsage,
                  path + ": is a file of a package, expected an ONNX model",
                  {"kerf run and kerf-run take the package: " +
                   (folder.empty() ? "." : folder.str())}};
  // Of files of other programs the importer says what to do with them.
  if (kind.empty() || kind == kOnnxModel || (kind == kArchive && !isArrays))
    return;
  if (kind == kArchive)
    kind = "an archive of arrays";
  throw Failure{kUsage, path + ": is " + kind + ", expected an ONNX model",
                notes};
}

void kerf::tool::requireModel(const std::string &path, bool takesPackages) {
  namespace fs = llvm::sys::fs;
  fs::file_status status;
  if (std::error_code code = fs::status(path, status))
    throw Failure{kUsage,
                  path + ": cannot open: " + code.message() +
                      (fs::is_regular_file(path + ".onnx")
                           ? ", did you mean " + path + ".onnx?"
                           : ""),
                  {}};
  if (status.type() != fs::file_type::directory_file) {
    // What exporters call the weights beside a model.
    llvm::StringRef model = path;
    if (model.consume_back(".data") && model.ends_with(".onnx") &&
        fs::exists(model))
      throw Failure{kUsage,
                    path + ": holds the weights of a model, expected " +
                        model.str(),
                    {}};
    return refuseOwnJson(path);
  }
  bool isPackage = fs::exists(path + "/manifest.json");
  if (isPackage && !takesPackages)
    throw Failure{kUsage,
                  path + ": is a package, expected an ONNX model",
                  {"kerf run and kerf-run take packages; kerf report " + path +
                   "/plan.json shows how it is cut"}};
  if (!isPackage)
    throw Failure{kUsage,
                  path + ": is a folder, expected an ONNX model" +
                      (takesPackages ? " or a package" : ""),
                  {}};
}

/// --expected must name an existing folder.
static void requireExpected(const std::string &path) {
  namespace fs = llvm::sys::fs;
  fs::file_status status;
  if (std::error_code code = fs::status(path, status))
    throw Failure{
        kUsage, "--expected: " + path + ": cannot open: " + code.message(), {}};
  if (status.type() != fs::file_type::directory_file)
    throw Failure{kUsage,
                  "--expected: " + path +
                      ": is a file, expected a folder of NAME.npy",
                  {}};
}

/// What the phases of a compilation are written as.
static std::vector<std::string> dumpNames(bool training) {
  std::vector<std::string> names;
  for (const std::string &phase : phaseNames(training))
    names.push_back(dumpName(names.size() + 1, phase));
  names.push_back("plan.json");
  return names;
}

/// Where LLVM puts temporary files.
static void checkTemporary() {
  llvm::SmallString<128> folder;
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, folder);
  std::string path = folder.str().str(), why = rt::whyNotWritable(path);
  if (!why.empty())
    throw Failure{kUsage,
                  path + ": cannot write: " + why,
                  {"temporary files are made there; TMPDIR names another "
                   "folder"}};
}

static const char *kindOf(OutputKind kind) {
  return kind == OutputKind::Plan      ? kPlan
         : kind == OutputKind::Machine ? kMachine
         : kind == OutputKind::Model   ? kOnnxModel
                                       : "";
}

/// What the file of -o may be called.
static std::string usualOutput(const Options &o, OutputKind kind) {
  llvm::StringRef stem = llvm::sys::path::stem(o.model);
  return kind == OutputKind::Machine ? "machine.json"
         : !o.stopAfter.empty()      ? o.stopAfter + ".mlir"
         : kind == OutputKind::Plan  ? "plan.json"
                                     : stem.str() + ".trained.onnx";
}

/// Behind why the package of -o is not made there.
static std::string placeOfPackage(const Options &o) {
  llvm::StringRef folder = llvm::StringRef(o.output).rtrim('/');
  bool isFolder = llvm::sys::fs::is_directory(o.output);
  if (isFolder && llvm::sys::fs::exists(o.output + "/manifest.json"))
    return "";
  std::string name = llvm::sys::path::stem(o.model).str() + ".kerf";
  return ", and -o names the folder to be made: -o " +
         (isFolder ? folder.str() + "/" : std::string()) + name;
}

void kerf::tool::checkFiles(const Options &o, OutputKind kind,
                            bool makesTemporary) {
  if (makesTemporary)
    checkTemporary();
  if (!o.expected.empty())
    requireExpected(o.expected);
  rt::UsedFiles files;
  std::vector<std::string> outputs;
  if (!o.model.empty())
    outputs = readModel(o.model, files);
  for (const std::string &text : o.constants)
    files.reads("--constant", fileOf(text));
  for (const std::string &text : o.inputs)
    files.reads("--input", rt::inputFile(text));
  files.reads("--plan", o.planFile);
  if (llvm::StringRef(o.machine).ends_with(".json"))
    files.reads("--machine", o.machine);
  files.reads("--data", o.data);
  files.reads("--eval-data", o.evalData);
  files.reads("--expected", o.expected);
  files.reads("the document", o.document);
  files.reads("--diff", o.otherDocument);
  if (kind == OutputKind::Package && o.stopAfter.empty()) {
    // A folder that has the model in it is no package either: that says more
    // than that the model is given by two flags.
    if (std::string why = whyNotReplaced(o.output); !why.empty())
      throw Failure{kUsage, o.output + ": " + why + placeOfPackage(o), {}};
    files.replaces("-o", o.output);
  } else
    files.writes("-o", o.output, usualOutput(o, kind));
  struct Output {
    const char *flag;
    const std::string &path;
    const char *kind; ///< see requireReplaceable()
    const char *usual;
  };
  const Output others[] = {
      {"--html", o.html, "", "report.html"},
      {"--stats", o.stats, kRunReport, "run.json"},
      {"--trace", o.trace, "", "trace.json"},
      {"--log", o.log, "", "log.jsonl"},
      {"--save-safetensors", o.safetensors, kSafetensors, "model.safetensors"}};
  for (const Output &output : others)
    files.writes(output.flag, output.path, output.usual);
  files.fills("--output-dir", o.outputDir, outputs);
  files.fills("--dump-dir", o.dumpDir, dumpNames(o.train));
  files.fills("--kernel-dump-dir", o.kernelDumpDir, {"kernels.mlir"});
  if (std::string wrong = files.check(); !wrong.empty())
    throw Failure{kUsage, wrong, {}};
  requireReplaceable("-o", o.output, kindOf(kind));
  for (const Output &output : others)
    requireReplaceable(output.flag, output.path, output.kind);
}
