"""Operators of the com.microsoft domain."""

import numpy as np

from golden import MS, source

f32 = np.float32


def cases(book):
    r = source(31)
    del r
