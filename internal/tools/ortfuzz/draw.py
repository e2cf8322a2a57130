"""Random shapes and arrays, and the table of generators.

A generator makes one call of an operator in the form it has in the operator set
that is asked for:

    @gen("Add Sub Mul Div")             # primary type parameter: "T"
    def arithmetic(d): return [a, b], {"attribute": 1}, 1

It returns operands (None where absent, a list for a sequence), attributes and the
number of results (or a string of 1 and 0 for present and absent ones), and
optionally a dictionary: rtol, atol (how near float results must be), const (these
operands are initializers), feed (these are not), kinds (element types of results
that ONNX Runtime does not infer), captured (values that bodies read, by name), nodes
(instead of one node: they read i0, i1, ... and make o0, o1, ...).
"""

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

F, H, D, I, L, B = np.float32, np.float16, np.float64, np.int32, np.int64, np.bool_
U8, I8 = np.uint8, np.int8
BF = ml_dtypes.bfloat16
S = np.dtype(object)  # strings

GENERATORS = {}  # (domain, operator) -> (generator, primary type parameter)

WORDS = ["", "a", "b", "ab", "Zürich", "a b", "  x ", "x,y,,z", "the cat", "12", "-3.5", "é", "日本", "A", "aa"]


def gen(names, t="T", domain=""):
    def keep(f):
        for n in names.split():
            GENERATORS[domain, n] = f, t
        return f
    return keep


def proto_type(dtype):
    """The element type of ONNX of a dtype of numpy."""
    return TensorProto.STRING if np.dtype(dtype) == S else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def dtype_of(name):
    """The dtype of numpy of a type of a schema, "tensor(float)", or of the members of a
    sequence; None for others."""
    if name.startswith("seq(tensor("):
        name = name[4:-1]
    if not name.startswith("tensor("):
        return None
    kind = name[7:-1].upper()
    if kind == "STRING":
        return S
    number = getattr(TensorProto, kind, None)
    return None if number is None else np.dtype(helper.tensor_dtype_to_np_dtype(number))


def is_float(t):
    return np.dtype(t).kind == "f" or np.dtype(t) in SMALL_FLOATS


SMALL_FLOATS = {np.dtype(x) for x in (BF, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
                                       ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu)}
SMALL_INTS = {np.dtype(ml_dtypes.int4): (-8, 8), np.dtype(ml_dtypes.uint4): (0, 16),
              np.dtype(ml_dtypes.int2): (-2, 2), np.dtype(ml_dtypes.uint2): (0, 4)}


def label(dtype):
    """A short name of an element type for reports."""
    return "string" if np.dtype(dtype) == S else np.dtype(dtype).name


class Draw:
    """Draws for one case: op, domain, opset, v (the schema's version) and t (the
    element type of the primary type parameter) say what is asked for."""

    def __init__(self, seed, schema=None, opset=21, t=F):
        self.r = np.random.default_rng(seed)
        self.schema, self.opset, self.t = schema, opset, np.dtype(t)
        if schema is not None:
            self.op, self.domain, self.v = schema.name, schema.domain, schema.since
            self.types = schema.types

    def pick(self, *options):
        return options[self.r.integers(len(options))]

    def chance(self, p):
        return self.r.random() < p

    def int(self, lo, hi):
        """A number from lo to hi, both included."""
        return int(self.r.integers(lo, hi + 1))

    def type(self, param, *wanted):
        """A type that the schema allows for a parameter, one of wanted if any are given."""
        allowed = [t for t in self.types.get(param, []) if t is not None]
        if wanted:
            allowed = [t for t in allowed if t in [np.dtype(w) for w in wanted]] or [np.dtype(wanted[0])]
        return allowed[self.r.integers(len(allowed))]

    def shape(self, lo=0, hi=4, empty=True, most=5):
        dims = (0, 1, 1, 2, 3, 4, 5) if empty and self.chance(0.15) else (1, 2, 3, 4, 5)
        if most > 5 and self.chance(0.15):  # long enough for several vectors and a tail
            dims = dims + (17, 33, 70)
        rank = self.r.integers(lo, hi + 1)
        while True:
            out = tuple(int(self.pick(*dims)) for _ in range(rank))
            if np.prod(out) <= 20000:
                return out

    def array(self, shape, dtype=None, special=True, full=True):
        """Elements that suit the type. special allows NaN, infinities, zeros of both
        signs and denormal numbers; full allows the whole range of integers."""
        dtype = np.dtype(self.t if dtype is None else dtype)
        if dtype == B:
            return np.asarray(self.r.random(shape) < 0.5)
        if dtype == S:
            return np.array([self.pick(*WORDS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
        if dtype in SMALL_INTS:
            return np.asarray(self.r.integers(*SMALL_INTS[dtype], shape)).astype(dtype)
        if dtype.kind in "iu":
            return self.integers(shape, dtype, full)
        if dtype.kind == "c":
            return np.asarray(self.r.standard_normal(shape) + 1j * self.r.standard_normal(shape)).astype(dtype)
        a = np.asarray(self.r.standard_normal(shape) * 3).astype(dtype)
        if dtype.name == "float8_e8m0fnu":
            return np.asarray(np.exp2(self.r.integers(-4, 5, shape))).astype(dtype)
        if special and a.size and self.chance(0.2):
            self.sprinkle(a)
        return a

    def integers(self, shape, dtype, full):
        info = np.iinfo(dtype)
        a = np.asarray(self.r.integers(max(-9, info.min), 10, shape)).astype(dtype)
        if full and a.size and self.chance(0.2):
            flat = a.reshape(-1)
            for _ in range(self.int(1, 3)):
                flat[self.r.integers(a.size)] = self.pick(info.min, info.max, info.max - 1, info.max // 2)
        return a

    def sprinkle(self, a):
        flat, tiny = a.reshape(-1), {2: 6e-8, 4: 1e-45, 8: 5e-324}.get(a.dtype.itemsize, 0)
        for _ in range(self.int(1, 3)):
            with np.errstate(all="ignore"):
                flat[self.r.integers(a.size)] = np.float64(self.pick(np.nan, np.inf, -np.inf, -0.0, 0.0, tiny, 1e30, -1e30))

    def positive(self, shape, dtype=None, lo=0.1, hi=3):
        return np.asarray(self.r.uniform(lo, hi, shape)).astype(self.t if dtype is None else dtype)

    def near(self, shape, dtype=None, scale=1.0):
        """Plain numbers around zero."""
        return np.asarray(self.r.standard_normal(shape) * scale).astype(self.t if dtype is None else dtype)

    def partner(self, shape):
        """A shape that broadcasts with the given one."""
        out = [d if self.chance(0.7) else 1 for d in shape]
        return tuple(out[self.r.integers(len(out) + 1):])

    def pair(self, hi=4):
        """Two shapes that broadcast, in either order, of every form."""
        s = self.shape(0, hi, most=70)
        p = self.partner(s)
        if self.chance(0.2):  # both are stretched
            s = tuple(1 if self.chance(0.3) else d for d in s)
        return (s, p) if self.chance(0.6) else (p, s)

    def axis(self, rank):
        return int(self.r.integers(-rank, rank))

    def axes(self, rank, least=1):
        """Different axes in some order, some counted from the end."""
        n = self.int(min(least, rank), rank)
        return [int(a) - (rank if self.chance(0.5) else 0) for a in self.r.permutation(rank)[:n]]

    def ints(self, *v):
        return np.array(v, L)

    def flag(self):
        return self.int(0, 1)

    def maybe(self, attrs):
        """Some of the attributes."""
        return {k: v for k, v in attrs.items() if self.chance(0.7)}
