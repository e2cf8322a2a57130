"""Prints for which element types ONNX Runtime's CPU provider refuses operators that the standard allows: the table of
internal/rewrite/list.go, which holds the rows of operators that passes make of others. A type counts as refused if it is in any
of the operator sets tried. Then the operator sets in which it refuses an operator altogether."""
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as H

IMAGE = [1, 2, 4, 4]
OPERATORS = {  # shapes of the operands, attributes
    **{op: ([IMAGE], {}) for op in "Exp Gelu GlobalAveragePool HardSigmoid HardSwish Mish Neg Reciprocal Relu Sigmoid Softmax Softplus Swish Tanh".split()},
    **{op: ([IMAGE, IMAGE], {}) for op in "Add Div MatMul Mul Sub".split()},
    "Clip": ([IMAGE, [], []], {}),
    "Gemm": ([[4, 4], [4, 4], [4]], {}),
    "GroupNormalization": ([IMAGE, [2], [2]], {"num_groups": 1}),
    "LayerNormalization": ([IMAGE, [4]], {}),
    "RMSNormalization": ([IMAGE, [4]], {}),
}
TYPES = "FLOAT16 BFLOAT16 FLOAT DOUBLE INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64".split()


def model(op, element, opset):
    shapes, attributes = OPERATORS[op]
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [H.make_tensor_value_info(n, element, s) for n, s in zip(names, shapes)]
    graph = H.make_graph([H.make_node(op, names, ["y"], **attributes)], "g", inputs, [H.make_tensor_value_info("y", element, None)])
    return H.make_model(graph, opset_imports=[H.make_opsetid("", opset)], ir_version=10)


def refused(op, element, opset):
    m = model(op, element, opset)
    try:
        onnx.defs.get_schema(op, opset, "")
        onnx.shape_inference.infer_shapes(m, strict_mode=True, check_type=True)
    except Exception:
        return False  # not in the standard
    try:
        ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:
        return True
    return False


ort.set_default_logger_severity(4)
for op in sorted(OPERATORS):
    lacking = [t for t in TYPES if any(refused(op, getattr(T, t), opset) for opset in (14, 15, 17, 18, 20, 21, 23, 24))]
    if lacking:
        print(op, *lacking)
for op in sorted(OPERATORS):
    versions = [v for v in range(14, onnx.defs.onnx_opset_version() + 1) if refused(op, T.FLOAT, v)]
    if versions:
        print(op, "in operator sets", *versions)
