# Random ONNX graphs against ONNX Runtime, on one rank and, every third of them
# (with --full each), on a random mesh. The graphs of a seed are always the same; KERF_FUZZ=N and KERF_FUZZ_SEED=S ask for
# others, KERF_FUZZ_PLANS=P for more plans of each. What fails is shrunk and
# printed as text: give it a name in Inputs/regressions when it is mended. Every
# operator that import knows has a spec in Inputs/onnxgen/specs.
#
# REQUIRES: kerf-commands, onnxruntime
# RUN: %python %s %t 150 3
import os
import pathlib
import re
import shutil
import sys

tests = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(tests / "Inputs"))

# Operators of the import table that no graph has: why.
SEQUENCES = "every value is to be a tensor: test/Import/sequences.py has random ones"
NO_SPEC = dict.fromkeys(("SplitToSequence", "SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert", "SequenceErase",
                         "SequenceLength", "ConcatFromSequence"), SEQUENCES)
NO_SPEC |= dict.fromkeys(("RNN", "GRU", "LSTM", "Loop", "Scan"), "test/Products/recurrent.py has their forms")
NO_SPEC |= dict.fromkeys(
    ("FusedMatMul", "TransposeMatMul", "FusedGemm", "FusedConv", "BiasGelu", "FastGelu", "QuickGelu", "SkipLayerNormalization",
     "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "EmbedLayerNormalization", "MultiHeadAttention",
     "GroupQueryAttention"), "test/Products/microsoft.py has their forms")
NO_SPEC |= dict.fromkeys(
    ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearMatMul", "DFT", "STFT", "LpPool",
     "GlobalLpPool"), "test/Products/quantized.py has their forms: of sums that round, any order is right, and none is equal")
NO_SPEC |= dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "SwiGLU", "CausalConvWithState", "LinearAttention"),
                         "ONNX's node tests have their forms")
NO_SPEC |= dict.fromkeys(("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli", "Multinomial"),
                         "test/Execute/random-numbers.py has their forms")

NO_SPEC |= dict.fromkeys(("RoiAlign", "DeformConv", "Det", "Compress", "NonMaxSuppression", "NonZero", "Unique", "TfIdfVectorizer", "ConvInteger", "QLinearConv"),
                         "test/Products/places.py has their forms")
NO_SPEC |= dict.fromkeys(("BitCast", "OptionalHasElement", "OptionalGetElement", "FlexAttention", "Adagrad", "Adam", "Momentum", "Binarizer",
                          "ArrayFeatureExtractor"), "ONNX Runtime does not have them, or of what is no tensor: ONNX's node tests have their forms")


def imported_operators():
    """The names in lib/Import's table of handlers."""
    sources = sorted((tests.parent / "lib" / "Import" / "Operators").glob("*.cpp"))
    return {name for source in sources for name in re.findall(r'table\.add\("(\w+)",', source.read_text())}


def main():
    from onnxgen.campaign import campaign
    from onnxgen.specs import SPECS

    out = pathlib.Path(sys.argv[1])
    count = int(os.environ.get("KERF_FUZZ", sys.argv[2]))
    seed = int(os.environ.get("KERF_FUZZ_SEED", 1))
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    known = imported_operators()
    lacking = sorted(known - set(SPECS) - set(NO_SPEC))
    unknown = sorted((set(SPECS) | set(NO_SPEC)) - known)
    failures, covered = campaign(out, seed, count, first=int(os.environ.get("KERF_FUZZ_FIRST", 0)),
                                 plans=int(os.environ.get("KERF_FUZZ_PLANS", 2)),
                                 spread=int(sys.argv[3]) if len(sys.argv) > 3 else 1,
                                 workers=int(os.environ.get("KERF_FUZZ_WORKERS", 2)))
    missed = sorted(set(SPECS) - set(covered)) if count >= 150 else []
    print(f"{len(known)} operators are imported; no spec: {lacking}; not imported: {unknown}; not covered: {missed}")
    sys.exit(bool(failures or lacking or unknown or missed))


if __name__ == "__main__":
    main()
