"""Plans and partitions a module through Kerf's C API: python plan.py libKerfC.so FILE.mlir DEVICES MESH"""
import ctypes
import json
import sys


class Options(ctypes.Structure):
    """KerfPlanOptions of kerf-c/Kerf.h."""
    _fields_ = [("size", ctypes.c_size_t), ("devices", ctypes.c_int64), ("mesh", ctypes.c_char_p),
                ("machine", ctypes.c_char_p), ("minimizeBytes", ctypes.c_bool), ("memoryLimitBytes", ctypes.c_int64),
                ("deadlineSeconds", ctypes.c_double)]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Handle(ctypes.Structure):
    """MlirContext, MlirModule, MlirOperation: one pointer each."""
    _fields_ = [("pointer", ctypes.c_void_p)]


kerf = ctypes.CDLL(sys.argv[1])
for name in ("mlirContextCreate", "mlirModuleCreateParse", "mlirModuleGetOperation"):
    getattr(kerf, name).restype = Handle
kerf.kerfPlan.restype = ctypes.c_void_p
kerf.kerfPartition.restype = kerf.kerfCollectives.restype = kerf.kerfCallRuntime.restype = ctypes.c_int8
kerf.kerfFree.argtypes = [ctypes.c_void_p]
assert kerf.kerfApiVersion() == 1

context = kerf.mlirContextCreate()
kerf.kerfRegisterDialects(context)
text = open(sys.argv[2], "rb").read()
module = kerf.mlirModuleCreateParse(context, Text(text, len(text)))
assert module.pointer, "the module has errors"

options = Options(ctypes.sizeof(Options), int(sys.argv[3]), sys.argv[4].encode(), None, True, 0, 0)
plan = kerf.kerfPlan(module, ctypes.byref(options))
assert plan, "there is no plan"
document = json.loads(ctypes.string_at(plan))
kerf.kerfFree(plan)
print("//", document["mesh"], document["objective"])
assert kerf.kerfPartition(module) and kerf.kerfCollectives(module)

WRITE = ctypes.CFUNCTYPE(None, Text, ctypes.c_void_p)
kerf.mlirOperationPrint(kerf.mlirModuleGetOperation(module),
                        WRITE(lambda text, _: sys.stdout.write(ctypes.string_at(text.data, text.length).decode())), None)
# What is left of dist becomes calls of the runtime (kerf/rt/ranks.h).
assert kerf.kerfCallRuntime(module)
