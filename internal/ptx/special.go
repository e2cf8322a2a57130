package ptx

import "math/bits"

// specialRegisters are what a warp knows of its place, by name.
var specialRegisters = map[string]func(w *warp, lane int) uint64{
	"%tid.x":             func(w *warp, l int) uint64 { return uint64(w.thread(l)[0]) },
	"%tid.y":             func(w *warp, l int) uint64 { return uint64(w.thread(l)[1]) },
	"%tid.z":             func(w *warp, l int) uint64 { return uint64(w.thread(l)[2]) },
	"%ntid.x":            func(w *warp, _ int) uint64 { return uint64(w.block.launch.Block[0]) },
	"%ntid.y":            func(w *warp, _ int) uint64 { return uint64(w.block.launch.Block[1]) },
	"%ntid.z":            func(w *warp, _ int) uint64 { return uint64(w.block.launch.Block[2]) },
	"%ctaid.x":           func(w *warp, _ int) uint64 { return uint64(w.block.id[0]) },
	"%ctaid.y":           func(w *warp, _ int) uint64 { return uint64(w.block.id[1]) },
	"%ctaid.z":           func(w *warp, _ int) uint64 { return uint64(w.block.id[2]) },
	"%nctaid.x":          func(w *warp, _ int) uint64 { return uint64(w.block.launch.Grid[0]) },
	"%nctaid.y":          func(w *warp, _ int) uint64 { return uint64(w.block.launch.Grid[1]) },
	"%nctaid.z":          func(w *warp, _ int) uint64 { return uint64(w.block.launch.Grid[2]) },
	"%laneid":            func(_ *warp, l int) uint64 { return uint64(l) },
	"%warpid":            func(w *warp, _ int) uint64 { return uint64(w.index) },
	"%nwarpid":           func(w *warp, _ int) uint64 { return uint64(len(w.block.warps)) },
	"%smid":              func(*warp, int) uint64 { return 0 },
	"%lanemask_eq":       func(_ *warp, l int) uint64 { return 1 << l },
	"%lanemask_lt":       func(_ *warp, l int) uint64 { return 1<<l - 1 },
	"%lanemask_le":       func(_ *warp, l int) uint64 { return 2<<l - 1 },
	"%lanemask_gt":       func(_ *warp, l int) uint64 { return allLanes &^ (2<<l - 1) },
	"%lanemask_ge":       func(_ *warp, l int) uint64 { return allLanes &^ (1<<l - 1) },
	"%dynamic_smem_size": func(w *warp, _ int) uint64 { return uint64(w.block.launch.DynamicShared) },
	"%total_smem_size": func(w *warp, _ int) uint64 {
		return uint64(w.block.kernel.info.SharedBytes) + uint64(w.block.launch.DynamicShared)
	},
}

// firstLane is the lowest lane of a mask that is not empty.
func firstLane(m uint32) int { return bits.TrailingZeros32(m) & 31 }
