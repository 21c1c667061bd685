//===- Options.cpp - the driver's options ---------------------------------===//
#include "Options.h"
#include "../Validators.h"

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Support/Preconditions.h"

using namespace kerf::tool;

/// NAME=SIZE,NAME=SIZE in parts; a name may have commas of its own.
static std::vector<std::string> splitBindings(const std::string &text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    // A further size of the binding before it, or the begin of a name with a
    // comma.
    bool isSize = part.find_first_not_of("0123456789") == std::string::npos;
    if (parts.empty() ||
        (!isSize && parts.back().find('=') != std::string::npos))
      parts.push_back(part);
    else
      parts.back() += "," + part;
    begin = end + 1;
  }
  // Whatever it is, it is part of the last binding.
  if (parts.size() > 1 && parts.back().find('=') == std::string::npos) {
    parts[parts.size() - 2] += "," + parts.back();
    parts.pop_back();
  }
  return parts;
}

/// Others write fp32 and fp16 for f32 and f16.
static CLI::Validator shortTypes() {
  return CLI::Validator(
      [](std::string &text) {
        if (text == "fp32" || text == "fp16")
          text.erase(1, 1);
        return std::string();
      },
      "");
}

void kerf::tool::addModel(CLI::App &app, Options &o) {
  app.add_option("model", o.model, "ONNX model (model.onnx)")->required();
  app.add_option_function<std::vector<std::string>>(
         "--dim",
         [&o](const std::vector<std::string> &texts) {
           for (const std::string &text : texts)
             for (std::string &binding : splitBindings(text))
               o.dims.push_back(std::move(binding));
         },
         "Bind symbolic dimensions: NAME=SIZE,NAME=SIZE; compile also "
         "takes NAME=LOW..HIGH and NAME=A,B,C")
      ->group("Model");
  app.add_option("--constant", o.constants,
                 "Bind an input that steers shapes: NAME=@FILE.npy or "
                 "NAME=1,2,3")
      ->group("Model");
  app.add_option("--batch-dim", o.batchDims,
                 "Batch dimension of an input: NAME=DIM (-1: none; default: "
                 "the common leading dimension)")
      ->group("Model");
}

void kerf::tool::addForms(CLI::App &app, Options &o) {
  app.add_flag("--as-inference", o.asInference,
               "Take Dropout and BatchNormalization in training mode as what "
               "they are in inference")
      ->group("Model");
}

void kerf::tool::addState(CLI::App &app, Options &o) {
  app.add_option("--state", o.states,
                 "Keep an output on the ranks as an input of the next step: "
                 "OUTPUT=INPUT, or auto (present.N.key and "
                 "past_key_values.N.key)")
      ->group("Model");
  app.add_option("--cache-length", o.cacheLength,
                 "Positions of a decoder's cache, for steps of one token of "
                 "one sample")
      ->check(atLeast(2))
      ->group("Model");
}

void kerf::tool::addPrompt(CLI::App &app, Options &o) {
  app.add_option("--prompt-tokens", o.promptTokens,
                 "With --cache-length: a second program, which takes so many "
                 "tokens of a prompt in a step")
      ->check(atLeast(2))
      ->group("Model");
}

void kerf::tool::addPlanning(CLI::App &app, Options &o) {
  const char *group = "Planning";
  app.add_option("--devices", o.devices,
                 "Devices: 8, cpu:4 or cuda:0-3 (default: those of --plan, "
                 "--machine or --mesh, else 1)")
      ->each([&o](const std::string &) { o.devicesGiven = true; })
      ->group(group);
  app.add_option("--machine", o.machine,
                 "What devices cost: cpu, GPU-D or GPU-DxN (N nodes of D = 1, "
                 "4, 8; GPU: h100, h200, a100-40gb, a100-80gb, l40s), pcie-8, "
                 "ethernet-N, or FILE.json")
      ->group(group);
  app.add_option(
         "--mesh", o.mesh,
         "Fix the degrees of the mesh: dp=2,tp=4,pp=1 (default: search)")
      ->group(group);
  app.add_option("--shard", o.shards,
                 "Hint on values: 'REGEX=[{tp},{}]', repeatable; REGEX matches "
                 "whole names")
      ->group(group);
  app.add_option("--precision", o.precision,
                 "Of matrix products and convolutions: f32, bf16, f16 (also "
                 "fp32, fp16) or, on GPUs, tf32")
      ->transform(shortTypes())
      ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16"}))
      ->group(group);
  app.add_flag("--fused-attention", o.fusedAttention,
               "With --precision=bf16 or f16: attention as one call; fast "
               "on GPUs, a plain loop on the CPU")
      ->group(group);
  app.add_option("--plan", o.planFile, "Use this plan.json")->group(group);
  app.add_option("--solver", o.solver, "auto, brute-force or random")
      ->check(CLI::IsMember({"auto", "brute-force", "random"}))
      ->group(group);
  app.add_option("--seed", o.seed, "Seed of --solver=random")
      ->check(atLeast(0))
      ->each([&o](const std::string &) { o.seedGiven = true; })
      ->group(group);
  app.add_option("--cost-model", o.costModel, "Volume model: ring or article")
      ->check(CLI::IsMember({"ring", "article"}))
      ->group(group);
  app.add_option("--objective", o.objective,
                 "time: fewest predicted seconds; volume: fewest bytes of the "
                 "busiest rank among plans that divide the work or that "
                 "--mesh fixes")
      ->check(CLI::IsMember({"time", "volume"}))
      ->group(group);
  app.add_option("--memory-limit", o.memoryLimit,
                 "Per device, as 80GiB (default: the machine's memory)")
      ->group(group);
  app.add_option("--micro-batches", o.microBatches,
                 "Micro-batches per step of a pipeline (default: search)")
      ->check(atLeast(1))
      ->group(group);
  app.add_option("--schedule", o.schedule,
                 "Of a pipeline that trains: auto, gpipe, 1f1b or interleaved")
      ->check(CLI::IsMember({"auto", "gpipe", "1f1b", "interleaved"}))
      ->group(group);
  app.add_option("--chunks", o.chunks,
                 "Chunks of the model in each stage of --schedule=interleaved "
                 "(default: 2, 3 or 4)")
      ->check(atLeast(2))
      ->group(group);
  app.add_option("--recompute", o.recompute,
                 "Blocks of a step that are computed again for its backward "
                 "pass: none, all, K (every K-th), or auto: where memory binds")
      ->check(recomputation())
      ->group(group);
  app.add_option("--zero", o.zero,
                 "What of a step lies in parts over dp: none, 1 (optimizer "
                 "states), 2 (and gradients), 3 (and parameters), or auto: "
                 "where memory binds")
      ->check(CLI::IsMember({"none", "1", "2", "3", "auto"}))
      ->group(group);
  app.add_option("--deadline", o.deadline, "Seconds that the search may take")
      ->check(positiveAndFinite())
      ->group(group);
  // A given plan is not searched: options of the search are refused.
  for (const char *name :
       {"--mesh", "--shard", "--solver", "--objective", "--cost-model",
        "--memory-limit", "--deadline", "--recompute", "--zero"})
    app.get_option("--plan")->excludes(app.get_option(name));
  app.add_option("--fail-phase", o.failPhase, "Let a phase fail")
      ->group(kTestOnly);
  app.add_option("--note-after", o.noteAfter,
                 "Seconds of a phase that are noted where there is no terminal")
      ->check(positiveAndFinite())
      ->group(kTestOnly);
  app.add_option("--without", o.without,
                 "A precondition of a rewrite that is not asked")
      ->check(CLI::IsMember(std::vector<std::string>(
          std::begin(kPreconditionNames), std::end(kPreconditionNames))))
      ->group(kTestOnly);
  app.add_option("--dump-dir", o.dumpDir, "Write the IR after each phase here")
      ->group("Inspection");
}

void kerf::tool::addQuestions(CLI::App &app, Options &o) {
  const char *group = "Questions";
  CLI::Option *explain =
      app.add_option("--explain", o.explain,
                     "For each way to cut this op (a node, or an output of "
                     "one) what the best plan costs in which it is cut so")
          ->group(group);
  CLI::Option *whatIf =
      app.add_option("--what-if", o.whatIf,
                     "Plan again with changes, as memory=40GiB,devices=16, of "
                     "memory, devices, machine, batch and open dimensions; "
                     "repeatable")
          ->excludes(explain)
          ->group(group);
  for (const char *name : {"--plan", "--stop-after"})
    for (CLI::Option *question : {explain, whatIf})
      question->excludes(app.get_option(name));
  whatIf->excludes(app.get_option("--print-pipeline"));
}

void kerf::tool::addPhases(CLI::App &app, Options &o) {
  app.add_option(
         "--stop-after", o.stopAfter,
         "Print the IR after this phase: import, autodiff, plan, partition, "
         "collectives, lower")
      ->group("Inspection");
  app.add_flag("--print-pipeline", o.printPipeline,
               "Print what each phase runs, as kerf-opt --pass-pipeline takes "
               "it")
      ->group("Inspection");
}

void kerf::tool::addResuming(CLI::App &app, Options &o) {
  CLI::Option *from =
      app.add_option("--from", o.from,
                     "Go on from IR (the model is FILE.mlir) that was printed "
                     "after this phase: import, autodiff, plan, partition, "
                     "collectives, lower; the plan is --plan, or plan.json in "
                     "the folder of the IR")
          ->check(CLI::IsMember({"import", "autodiff", "plan", "partition",
                                 "collectives", "lower"}))
          ->group("Inspection");
  for (const char *name : {"--dim", "--constant"})
    from->excludes(app.get_option(name));
}

void kerf::tool::addCompiling(CLI::App &app, Options &o) {
  app.add_option("--target-cpu", o.targetCpu,
                 "CPU to compile for, as LLVM names it (default: this host; "
                 "with GPUs x86-64-v2)")
      ->group("Code generation");
  app.add_option(
         "--ptxas", o.ptxas,
         "With GPUs: path of ptxas, or none (default: $KERF_PTXAS, "
         "CUDA_HOME, PATH, /usr/local/cuda, the wheel nvidia-cuda-nvcc)")
      ->group("Code generation");
  app.add_flag("--no-kernel-cache", o.noKernelCache,
               "Compile each kernel, also those that commands before have "
               "compiled, and keep none (in ~/.cache/kerf)")
      ->group("Code generation");
  app.add_flag("--host-kernels", o.hostKernels,
               "With GPUs: also compile each kernel for the CPU, so that the "
               "host side can be tested without a GPU")
      ->group("Code generation");
  app.add_option("--kernel-dump-dir", o.kernelDumpDir,
                 "With GPUs: write gpu.funcs, LLVM IR and PTX of kernels here")
      ->group("Inspection");
}

void kerf::tool::addInputs(CLI::App &app, Options &o) {
  app.add_option("--input", o.inputs,
                 "Inputs: NAME=@FILE.npy, NAME=NUMBER, FILE.npy (the only "
                 "input) or @FILE.npz (all that it has), with commas between "
                 "or repeatable; sizes of symbolic dimensions follow")
      ->group("Running");
}

void kerf::tool::addRunning(CLI::App &app, Options &o) {
  const char *group = "Running";
  app.add_flag("--random-inputs", o.randomInputs,
               "Draw inputs that are not given, as --seed=S does")
      ->group(group);
  CLI::Option *folder = app.add_option("--output-dir", o.outputDir,
                                       "Write each output as NAME.npy")
                            ->group(group);
  app.add_option("--output-dtype", o.outputType,
                 "Of these files: model (default, as computed), or f32 for "
                 "outputs of 16 bits")
      ->check(CLI::IsMember({"model", "f32"}))
      ->needs(folder)
      ->group(group);
  app.add_option("--stats", o.stats, "Write run.json")->group(group);
  app.add_option("--trace", o.trace, "Write a Chrome trace of the last step")
      ->group(group);
  app.add_option("--repeat", o.repeat,
                 "Number of steps; more than one shows their times")
      ->check(atLeast(1))
      ->group(group);
}

void kerf::tool::addThreads(CLI::App &app, Options &o) {
  const char *group = "Running";
  app.add_option("--threads", o.threads,
                 "Threads per rank, for what is worth them (default: the cores "
                 "divided by the ranks)")
      ->check(CLI::Range(1, 4096))
      ->group(group);
  app.add_option("--timeout", o.timeout, "Deadline of every wait, in seconds")
      ->check(positiveAndFinite())
      ->group(group);
}

void kerf::tool::addRanks(CLI::App &app, Options &o) {
  const char *group = "Running";
  addThreads(app, o);
  CLI::Option *ranks =
      app.add_option(
             "--ranks", o.ranks,
             "What ranks are where no launcher has started processes: "
             "auto (processes for several GPUs, else threads), threads, "
             "processes")
          ->check(CLI::IsMember({"auto", "threads", "processes"}))
          ->group(group);
  app.add_flag_callback(
         "--processes", [&o] { o.ranks = "processes"; },
         "A process of this host for each rank: --ranks=processes")
      ->excludes(ranks)
      ->group(group);
  app.add_option("--inject", o.inject,
                 "Fail on purpose, to test: rank=1,collective=3,fault=die")
      ->group(group);
}

void kerf::tool::addGenerating(CLI::App &app, Options &o) {
  const char *group = "Generating";
  app.add_option("--prompt-ids", o.promptIds, "The prompt: 1,2,3")
      ->required()
      ->group(group);
  app.add_option("--tokens", o.tokens, "How many ids to generate, at most")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31))
      ->group(group);
  CLI::Option *temperature =
      app.add_option("--temperature", o.temperature,
                     "Divides logits before an id is drawn; 0 (default): the "
                     "largest logit's id")
          ->check(CLI::NonNegativeNumber)
          ->group(group);
  app.add_option("--top-k", o.topK,
                 "Draw from so many of the most likely ids; 0 (default): all")
      ->check(atLeast(0))
      ->needs(temperature)
      ->group(group);
  app.add_option("--top-p", o.topP,
                 "Draw from the fewest most likely ids that have this "
                 "probability together")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(temperature)
      ->group(group);
  app.add_option("--eos", o.endIds, "End behind one of these ids: 2 or 2,7")
      ->group(group);
  app.add_option("--stats", o.stats, "Write run.json")->group("Running");
}

void kerf::tool::addTraining(CLI::App &app, Options &o) {
  const char *group = "Training";
  app.add_option("--loss", o.loss,
                 "LOSS(OUTPUT,LABELS) with " + autodiff::lossNames() +
                     ", or the name of a scalar output")
      ->group(group);
  app.add_option("--optimizer", o.optimizer,
                 autodiff::optimizerNames() +
                     ", then ,lr=1e-3,momentum=0.9,wd=0.1 and others; "
                     "without it plan, compile and verify take sgd (no "
                     "default of train)")
      ->group(group);
  app.add_option("--trainable", o.trainable,
                 "Train only weights whose whole name matches, repeatable, as "
                 "'head.*'; +REGEX: as well as what is trained by itself")
      ->group(group);
  app.add_option("--frozen", o.frozen,
                 "Do not train weights whose whole name matches, repeatable")
      ->group(group);
  app.add_option("--tied", o.tied,
                 "Vectors that are stored once and read by several nodes stay "
                 "one where their whole name matches, repeatable")
      ->group(group);
  app.add_option("--batch-norm", o.batchNorm,
                 "Statistics of the whole micro-batch (sync, the default), of "
                 "each rank's part (local), or the running ones (frozen)")
      ->check(CLI::IsMember({"sync", "local", "frozen"}))
      ->group(group);
  app.add_option("--gradient-dtype", o.gradientDtype,
                 "In which gradients are sent: f32, bf16 or f16 (default: the "
                 "precision)")
      ->transform(shortTypes())
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->group(group);
  app.add_option("--clip-norm", o.clipNorm,
                 "Clip the gradients' global norm to this")
      ->check(positiveAndFinite())
      ->group(group);
  app.add_option("--accumulate", o.accumulate,
                 "Cut each batch into this many parts, one after the other")
      ->check(atLeast(1))
      ->group(group);
  app.add_option("--on-nan", o.onNan,
                 "A loss that is not finite ends the run (stop) or its step "
                 "(skip)")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->group(group);
}

void kerf::tool::addLoop(CLI::App &app, Options &o) {
  const char *data = "Data", *loop = "Loop", *files = "Files";
  app.add_option("--data", o.data,
                 "FILE.npz, FILE.safetensors, a folder of .npy, or tokens: "
                 "FILE.npy, FILE.bin, FILE.txt")
      ->group(data);
  app.add_option("--sequence-length", o.sequenceLength,
                 "How many tokens a sample of flat tokens has")
      ->check(atLeast(1))
      ->group(data);
  app.add_option("--batch-size", o.batchSize, "Samples of a step, all ranks")
      ->check(atLeast(1))
      ->group(data);
  app.add_option("--shuffle", o.shuffle, "on (default) or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->group(data);
  app.add_option("--last-batch", o.lastBatch,
                 "drop (default) or keep what does not fill a batch")
      ->check(CLI::IsMember({"drop", "keep"}))
      ->group(data);
  app.add_option("--eval-data", o.evalData, "Measure loss and accuracy on this")
      ->group(data);
  app.add_option("--eval-every", o.evalEvery,
                 "Steps between evaluations (default: at the end)")
      ->check(atLeast(1))
      ->group(data);
  CLI::Option *steps = app.add_option("--steps", o.steps, "Steps in all")
                           ->check(atLeast(1))
                           ->group(loop);
  app.add_option("--epochs", o.epochs, "Passes over the data (default: 1)")
      ->check(atLeast(1))
      ->excludes(steps)
      ->group(loop);
  app.add_option("--learning-rate", o.learningRate,
                 "constant, linear or cosine, then ,warmup=100,min=1e-5; step "
                 "or exponential, then ,every=1000,factor=0.1")
      ->group(loop);
  app.add_option("--loss-scale", o.lossScale,
                 "Of --precision=f16: by what the loss is multiplied before "
                 "it is differentiated, at first (a power of two, default: "
                 "65536); halved where gradients overflow")
      ->check(powerOfTwo())
      ->group(loop);
  app.add_option("--loss-scale-interval", o.lossScaleInterval,
                 "Steps without overflow after which it doubles (default: "
                 "2000)")
      ->check(atLeast(1))
      ->group(loop);
  app.add_option("--checkpoint-dir", o.checkpointDir, "Keep checkpoints here")
      ->group(loop);
  app.add_option("--checkpoint-every", o.checkpointEvery,
                 "Steps between checkpoints (default: at the end)")
      ->check(atLeast(1))
      ->group(loop);
  app.add_flag("--resume", o.resume,
               "Go on from the newest checkpoint that is whole")
      ->group(loop);
  CLI::Option *output =
      app.add_option("-o,--output", o.output,
                     "The trained model (default: MODEL.trained.onnx in the "
                     "current folder, unless something else keeps the weights)")
          ->group(files);
  app.add_flag("--no-output", o.noOutput, "Keep no trained model")
      ->excludes(output)
      ->group(files);
  app.add_option("--save-safetensors", o.safetensors, "Its weights alone")
      ->group(files);
  app.add_option("--log", o.log, "One line of JSON per step")->group(files);
}

const char *const kerf::tool::kTestOnly = "Test only";

void kerf::tool::addPrinting(CLI::App &app, Options &o, Prints prints) {
  const char *group = "Output";
  if (prints == Prints::Json || prints == Prints::VerboseAndJson)
    app.add_flag("--json", o.json, "Print JSON on stdout")->group(group);
  CLI::Option *quiet =
      app.add_flag("-q,--quiet", o.quiet, "Print errors alone")->group(group);
  if (prints == Prints::Verbose || prints == Prints::VerboseAndJson)
    app.add_flag("-v,--verbose", o.verbose, "Print more")
        ->excludes(quiet)
        ->group(group);
}
