"""Corners of the quantization operators."""

import numpy as np

from golden import source

f32 = np.float32


def cases(book):
    r = source(21)
    for dt in (np.uint8, np.int8, np.uint16, np.int16):
        info = np.iinfo(dt)
        x = np.concatenate([r(20, scale=3), np.array([0.25, 0.75, -0.25, 1e9, -1e9], f32)])
        zero = np.array(info.min + (info.max - info.min) // 3, dt)
        name = np.dtype(dt).name
        book.add(f"QuantizeLinear_{name}", "QuantizeLinear", [x, np.array(0.5, f32), zero])
        book.add(f"DequantizeLinear_{name}", "DequantizeLinear",
                 [r.ints(info.min, info.max, 12, dtype=dt), np.array(0.03, f32), zero])
    book.add("QuantizeLinear_axis", "QuantizeLinear", [r(2, 3, 4, scale=20), abs(r(3)) + f32(0.1), r.ints(0, 255, 3, dtype=np.uint8)], axis=1)
    book.add("QuantizeLinear_last", "QuantizeLinear", [r(2, 3, scale=20), abs(r(3)) + f32(0.1), r.ints(-99, 99, 3, dtype=np.int8)], axis=-1)
    book.add("QuantizeLinear_block", "QuantizeLinear", [r(2, 5, 3, scale=20), abs(r(2, 2, 3)) + f32(0.1), r.ints(-9, 99, 2, 2, 3, dtype=np.int8)],
             axis=1, block_size=3)
    book.add("DequantizeLinear_int32", "DequantizeLinear", [r.ints(-10**6, 10**6, 3, 4, dtype=np.int32), abs(r(3))], axis=0)
    book.add("DynamicQuantizeLinear_positive", "DynamicQuantizeLinear", [abs(r(3, 5))], outputs=3)
    book.add("DynamicQuantizeLinear_zero", "DynamicQuantizeLinear", [np.zeros((2, 3), f32)], outputs=3)
    book.add("DynamicQuantizeLinear", "DynamicQuantizeLinear", [r(40, scale=5)], outputs=3)
    for a, b in ((np.uint8, np.int8), (np.uint8, np.uint8)):
        names = np.dtype(a).name + np.dtype(b).name
        A, B = r.ints(np.iinfo(a).min, np.iinfo(a).max, 2, 3, 4, dtype=a), r.ints(np.iinfo(b).min, np.iinfo(b).max, 4, 5, dtype=b)
        za, zb = r.ints(0, 9, dtype=a), r.ints(0, 9, 5, dtype=b)
        book.add(f"MatMulInteger_{names}", "MatMulInteger", [A, B, np.array(za, a), zb])
        book.add(f"MatMulInteger_none_{names}", "MatMulInteger", [A, B])
        book.add(f"QLinearMatMul_{names}", "QLinearMatMul", [A, np.array(0.02, f32), np.array(za, a), B, np.array(0.03, f32), np.array(3, b),
                                                           np.array(2.5, f32), np.array(5, a)])
        x, w = r.ints(np.iinfo(a).min, np.iinfo(a).max, 1, 4, 5, 5, dtype=a), r.ints(np.iinfo(b).min, np.iinfo(b).max, 6, 2, 3, 3, dtype=b)
        book.add(f"ConvInteger_{names}", "ConvInteger", [x, w, np.array(7, a), np.array(2, b)], group=2, pads=[1, 1, 0, 1], strides=[2, 1])
        book.add(f"QLinearConv_{names}", "QLinearConv", [x, np.array(0.05, f32), np.array(7, a), w, abs(r(6)) * f32(0.1),
                                                        np.full(6, 0 if b == np.int8 else 3, b), np.array(3.5, f32), np.array(9, a),
                                                        r.ints(-99, 99, 6, dtype=np.int32)], group=2, pads=[1, 1, 0, 1])
