package convolve

import "github.com/berth-onnx/berth/internal/cpu/kern/machine"

// Padding of blocked images written out by each task. An image that is larger than the second cache, copied as a whole, goes through memory three times: it is
// read, written with its padding, and read by the kernels, some pixels of each of many planes. Where the weights of a group stay in the cache,
// a task takes all pairs of output blocks over a few rows instead, and copies their input before:
//
//	X ──▶ rows of all planes with their padding, in the cache ──▶ pair 0, pair 1, …
//
// Neighbouring tasks both copy the rows that their windows share.

// localRows is how many output rows such a task takes at most; 0 where the image is copied as a whole, or read in place.
func (d *directConv) localRows() int {
	const cached = 1 << 15 // floats: of a larger image with its padding, and of the rows of a task
	if d.s.Half != NoHalf || !d.s.InBlocked || d.flat || d.taps == 1 || !d.rowsFirst || !d.pad.needed() || d.inPlanes*d.pad.size() <= 2*cached {
		return 0
	}
	row := max(1, d.perGroup*d.pad.pCols*d.width)
	rows := cached / row
	if rows < 2*d.paddedRows(1) { // much would be copied twice
		return 0
	}
	d.copies = true
	return (rows-d.paddedRows(1))/d.step[0] + 1
}

// paddedRows is how many rows of the image with its padding some output rows read.
func (d *directConv) paddedRows(n int) int {
	return (n-1)*d.step[0] + (d.s.Kernel[1]-1)*d.s.Dilation[1] + 1
}

// localLen is the floats of the rows that a task copies.
func (d *directConv) localLen() int { return d.perGroup * d.local * d.pad.pCols * d.width }

// localTask computes task i: some rows of all pairs of output blocks of a group.
func (d *directConv) localTask(r *convRun, i, worker int) {
	buf := r.buffer(worker)
	in := buf.Floats(d.localLen())
	u := i % d.rowTasks * d.perTask
	k := d.within(directTask{group: i / d.rowTasks}, u, min(u+d.perTask, d.rows))
	plane, first := d.local*d.pad.pCols*d.width, u*d.step[0]
	rows := d.paddedRows(k.u1 - k.u0)
	for j := range d.perGroup {
		d.pad.part(in[j*plane:], r.from.after((k.group*d.perGroup+j)*d.inN*d.width), first, rows)
	}
	for k.pair = range d.pairs() {
		k.blocks = min(2, d.outBlocks-2*k.pair)
		if !machine.Closed(r.args.Done) {
			d.pair(r, in, plane, &k, buf)
		}
	}
}
