"""Differences between berth and ONNX Runtime that are known, and why."""


def explain(folder, case, message):
    return None
