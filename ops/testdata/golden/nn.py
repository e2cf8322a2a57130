"""Corners of the neural network operators that the recorded ONNX tests leave out."""

import numpy as np

from golden import source

f32 = np.float32


def cases(book):
    recurrent(book)
    windows(book)
    norms(book)
    signals(book)
    others(book)
    experimental(book)


def recurrent(book):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}
    for op, g in gates.items():
        r = source(g)
        T, B, I, H = 4, 3, 2, 3

        def run(name, dirs=1, extra=(), scale=0.7, **attrs):
            ins = [r(T, B, I), r(dirs, g * H, I, scale=scale), r(dirs, g * H, H, scale=scale), r(dirs, 2 * g * H, scale=0.3)]
            ins += [None] * 4 if op == "LSTM" else [None] * 2
            for key, make in extra:
                ins[key] = make(dirs)
            while ins[-1] is None:
                ins.pop()
            book.add(f"{op}_{name}", op, ins, outputs=3 if op == "LSTM" else 2, hidden_size=H, **attrs)

        lens = (4, lambda d: np.array([4, 0, 2], np.int32))
        h0 = (5, lambda d: r(d, B, H))
        c0 = (6, lambda d: r(d, B, H))
        peep = (7, lambda d: r(d, 3 * H))
        run("reverse", direction="reverse")
        run("bidirectional_lens", 2, [lens, h0], direction="bidirectional")
        run("reverse_lens", 1, [lens, h0], direction="reverse")
        run("clip", clip=0.4, extra=[h0])
        n = {"RNN": 1, "GRU": 2, "LSTM": 3}[op]
        for a, alpha, beta in [("Relu", None, None), ("Affine", [0.7] * n, [0.2] * n), ("LeakyRelu", [0.2] * n, None),
                               ("ThresholdedRelu", [0.3] * n, None), ("ScaledTanh", [0.8] * n, [1.3] * n),
                               ("HardSigmoid", [0.3] * n, [0.4] * n), ("Elu", [0.6] * n, None), ("Softsign", None, None),
                               ("Softplus", None, None), ("Sigmoid", None, None), ("LeakyRelu", None, None)]:
            attrs = {"activations": [a] * n}
            if alpha:
                attrs["activation_alpha"] = alpha
            if beta:
                attrs["activation_beta"] = beta
            run(f"{a}_{'default' if alpha is None else 'alpha'}", scale=0.4, **attrs)
        if op == "GRU":
            run("linear_before_reset", 2, [h0, lens], direction="bidirectional", linear_before_reset=1)
            run("mixed", 2, [h0], direction="bidirectional", activations=["HardSigmoid", "Relu", "Sigmoid", "Elu"],
                activation_alpha=[0.3, 0.5], activation_beta=[0.4])
        if op == "LSTM":
            run("peepholes", 2, [h0, c0, peep, lens], direction="bidirectional")
            run("input_forget", 1, [h0, c0], input_forget=1)
            run("clip_peepholes", 1, [h0, c0, peep], clip=0.3)


def windows(book):
    r = source(7)
    for pads in ([0, 0, 0, 0], [1, 2, 0, 1]):
        for auto in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
            if auto != "NOTSET" and pads[0]:
                continue
            extra = {"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}
            tag = f"{auto}_{pads[0]}"
            book.add(f"Conv_{tag}", "Conv", [r(2, 4, 7, 6), r(6, 2, 3, 2), r(6)], group=2, strides=[2, 1], **extra)
            book.add(f"Conv1d_{tag}", "Conv", [r(1, 3, 9), r(2, 3, 3)], strides=[2], dilations=[2 if auto in ("NOTSET", "VALID") else 1],
                     **({"pads": pads[:2]} if auto == "NOTSET" else {"auto_pad": auto}))
            book.add(f"MaxPool_{tag}", "MaxPool", [r(1, 2, 7, 6)], outputs=2, kernel_shape=[3, 2], strides=[2, 2],
                     **({"pads": [1, 1, 0, 1] if pads[0] else pads} if auto == "NOTSET" else extra))
            book.add(f"AveragePool_{tag}", "AveragePool", [r(1, 2, 7, 6)], kernel_shape=[3, 3], strides=[2, 2],
                     **({"pads": [1, 2, 0, 1] if pads[0] else pads} if auto == "NOTSET" else extra))
            book.add(f"ConvTranspose_{tag}", "ConvTranspose", [r(2, 4, 3, 4), r(4, 3, 3, 2), r(6)], group=2, strides=[2, 2], **extra)
    book.add("Conv3d", "Conv", [r(1, 2, 4, 5, 3), r(3, 2, 2, 3, 2), r(3)], pads=[1, 0, 1, 0, 1, 0], dilations=[1, 2, 1])
    book.add("MaxPool_columns", "MaxPool", [r(2, 2, 4, 5)], outputs=2, kernel_shape=[2, 2], storage_order=1)
    book.add("MaxPool_dilated_ceil", "MaxPool", [r(1, 1, 8, 8)], outputs=2, kernel_shape=[3, 3], strides=[2, 2], dilations=[2, 1],
             ceil_mode=1, pads=[1, 1, 1, 1])
    book.add("MaxPool_int8", "MaxPool", [r.ints(-128, 127, 1, 2, 5, 5, dtype=np.int8)], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    book.add("AveragePool_pad_ceil", "AveragePool", [r(1, 1, 6, 7)], kernel_shape=[3, 3], strides=[2, 3], pads=[1, 1, 1, 1],
             count_include_pad=1, ceil_mode=1)
    for p in (1, 2, 3):
        book.add(f"LpPool_{p}", "LpPool", [r(1, 2, 5, 5)], kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1], p=p)
        book.add(f"GlobalLpPool_{p}", "GlobalLpPool", [r(2, 2, 3, 4)], p=p, opset=21)
    book.add("ConvTranspose_shape", "ConvTranspose", [r(1, 2, 3, 3), r(2, 2, 3, 3)], strides=[2, 2], output_shape=[8, 7])
    book.add("ConvTranspose_padding", "ConvTranspose", [r(1, 2, 3), r(2, 1, 4)], strides=[3], output_padding=[2], dilations=[2], pads=[1, 2])


def norms(book):
    r = source(8)
    book.add("LayerNormalization_broadcast", "LayerNormalization", [r(2, 3, 4), r(3, 1), r(4)], outputs=3, axis=1, epsilon=1e-3)
    book.add("BatchNormalization_1d", "BatchNormalization", [r(5, 3), r(3), r(3), r(3), abs(r(3))])
    book.add("LRN", "LRN", [r(2, 6, 2, 2)], size=5, alpha=0.3, beta=0.6, bias=1.5)
    book.add("MeanVarianceNormalization_all", "MeanVarianceNormalization", [r(2, 3, 2, 2)], axes=[0, 1, 2, 3])
    book.add("InstanceNormalization_3d", "InstanceNormalization", [r(2, 3, 5), r(3), r(3)], epsilon=1e-2)
    book.add("LpNormalization_1", "LpNormalization", [r(3, 4, 2)], axis=1, p=1)


def signals(book):
    r = source(9)
    for opset, axis in ((20, 1), (20, -2)):
        a = np.array(axis)
        for n in (None, 3, 8):
            length = None if n is None else np.array(n)
            tag = f"{axis}_{n}"
            book.add(f"DFT_{tag}", "DFT", [r(2, 5, 3, 2), length, a], opset=opset)
            book.add(f"DFT_real_{tag}", "DFT", [r(2, 5, 3, 1), length, a], opset=opset, onesided=1)
            book.add(f"DFT_inverse_{tag}", "DFT", [r(2, 5, 3, 2), length, a], opset=opset, inverse=1)
    book.add("STFT", "STFT", [r(2, 20, 1), np.array(3), abs(r(8)), np.array(8)], opset=17)
    book.add("STFT_full", "STFT", [r(1, 15, 1), np.array(4), None, np.array(7)], opset=17, onesided=0)
    book.add("STFT_complex", "STFT", [r(1, 15, 2), np.array(4), abs(r(6))], opset=17, onesided=0)
    book.add("STFT_rank_2", "STFT", [source(12)(2, 20), np.array(3), abs(source(13)(8)), np.array(8)], opset=17)  # as torch.onnx.export writes it
    book.add("MelWeightMatrix", "MelWeightMatrix", [np.array(6), np.array(64), np.array(16000), np.array(20, f32), np.array(7600, f32)], opset=17)


def others(book):
    r = source(10)
    book.add("DeformConv", "DeformConv", [r(2, 4, 5, 5), r(6, 2, 3, 2), r(2, 2 * 6 * 2, 3, 4), r(6), r(2, 2 * 6, 3, 4)], group=2, offset_group=2)
    rois = np.array([[0, 0, 0, 4, 3], [1, 1, 2, 3, 4], [0, 2, 2, 2, 2]], np.float32)
    for scale in (1.0, 0.5):
        book.add(f"MaxRoiPool_{scale}", "MaxRoiPool", [source(11)(2, 3, 5, 5), rois], pooled_shape=[2, 2], spatial_scale=scale, opset=21)
    book.add("MaxUnpool", "MaxUnpool", [r(1, 2, 2, 2), np.array([[[[0, 3], [9, 14]], [[17, 18], [26, 31]]]])], kernel_shape=[2, 2], strides=[2, 2])
    B, S, L, N, H = 2, 3, 5, 2, 4
    q, k, v = r(B, 2 * N, S, H), r(B, N, L, H), r(B, N, L, 3)
    past = [r(B, N, 2, H), r(B, N, 2, 3)]
    book.add("Attention_past", "Attention", [q, k, v, r(S, L + 2), past[0], past[1]], 3, opset=23, is_causal=1)
    book.add("Attention_bool", "Attention", [q, k, v, r.ints(0, 2, B, 1, S, L, dtype=bool)], opset=23, softcap=1.5)
    for mode in range(4):
        book.add(f"Attention_scores_{mode}", "Attention", [q, k, v, r(S, L)], "1001", opset=24, qk_matmul_output_mode=mode)
    book.add("Attention_packed", "Attention", [r(B, S, 2 * N * H), r(B, L, N * H), r(B, L, N * 3)], opset=23, q_num_heads=2 * N, kv_num_heads=N, scale=0.2)
    book.add("RotaryEmbedding_partial", "RotaryEmbedding", [r(2, 3, 16), r(9, 2), r(9, 2), r.ints(0, 9, 2, 3)], opset=23, num_heads=2,
             rotary_embedding_dim=4, interleaved=1)
    book.add("RMSNormalization", "RMSNormalization", [r(2, 3, 4), r(3, 4)], opset=23, axis=1)


def experimental(book):
    r = source(12)

    def old(name, op, *inputs, **attrs):
        book.add(name, op, list(inputs), opset=9, **attrs)

    old("Affine", "Affine", r(2, 3), alpha=0.5, beta=-1.0)
    old("Affine_plain", "Affine", r(2, 3))
    old("ParametricSoftplus", "ParametricSoftplus", r(2, 3), alpha=0.5, beta=2.0)
    old("ScaledTanh", "ScaledTanh", r(2, 3), alpha=0.5, beta=2.0)
    old("Scale", "Scale", r(2, 3), scale=0.25)
    old("ImageScaler", "ImageScaler", r(2, 3, 2, 2), scale=0.25, bias=[0.5, -1.0, 2.0])
    old("Crop", "Crop", r(1, 2, 5, 6), border=[1, 2, 0, 1])
    old("Crop_scale", "Crop", r(1, 2, 5, 6), border=[1, 2, 0, 0], scale=[2, 4])
    old("DynamicSlice", "DynamicSlice", r(4, 5), np.array([1, -3]), np.array([3, 100]), np.array([0, 1]))
    old("DynamicSlice_all", "DynamicSlice", r(4, 5), np.array([1, 2], np.int32), np.array([-1, 4], np.int32))
