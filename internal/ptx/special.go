package ptx

import "math/bits"

// specialRegisters are what a warp knows of its place, by name.
var specialRegisters = map[string]func(w *warp, launch *Launch, lane int) uint64{
	"%tid.x":             func(w *warp, _ *Launch, l int) uint64 { return uint64(w.thread(l)[0]) },
	"%tid.y":             func(w *warp, _ *Launch, l int) uint64 { return uint64(w.thread(l)[1]) },
	"%tid.z":             func(w *warp, _ *Launch, l int) uint64 { return uint64(w.thread(l)[2]) },
	"%ntid.x":            func(_ *warp, g *Launch, _ int) uint64 { return uint64(g.Block[0]) },
	"%ntid.y":            func(_ *warp, g *Launch, _ int) uint64 { return uint64(g.Block[1]) },
	"%ntid.z":            func(_ *warp, g *Launch, _ int) uint64 { return uint64(g.Block[2]) },
	"%ctaid.x":           ofBlock,
	"%ctaid.y":           ofBlock,
	"%ctaid.z":           ofBlock,
	"%nctaid.x":          func(_ *warp, g *Launch, _ int) uint64 { return uint64(g.Grid[0]) },
	"%nctaid.y":          func(_ *warp, g *Launch, _ int) uint64 { return uint64(g.Grid[1]) },
	"%nctaid.z":          func(_ *warp, g *Launch, _ int) uint64 { return uint64(g.Grid[2]) },
	"%laneid":            func(_ *warp, _ *Launch, l int) uint64 { return uint64(l) },
	"%warpid":            func(w *warp, _ *Launch, _ int) uint64 { return uint64(w.index) },
	"%nwarpid":           func(w *warp, _ *Launch, _ int) uint64 { return uint64(len(w.block.warps)) },
	"%smid":              func(*warp, *Launch, int) uint64 { return 0 },
	"%lanemask_eq":       func(_ *warp, _ *Launch, l int) uint64 { return 1 << l },
	"%lanemask_lt":       func(_ *warp, _ *Launch, l int) uint64 { return 1<<l - 1 },
	"%lanemask_le":       func(_ *warp, _ *Launch, l int) uint64 { return 2<<l - 1 },
	"%lanemask_gt":       func(_ *warp, _ *Launch, l int) uint64 { return allLanes &^ (2<<l - 1) },
	"%lanemask_ge":       func(_ *warp, _ *Launch, l int) uint64 { return allLanes &^ (1<<l - 1) },
	"%dynamic_smem_size": func(_ *warp, g *Launch, _ int) uint64 { return uint64(g.DynamicShared) },
	"%total_smem_size": func(w *warp, g *Launch, _ int) uint64 {
		return uint64(w.block.kernel.info.SharedBytes) + uint64(g.DynamicShared)
	},
}

// blockIndices are the special registers that are another one for every block, by axis.
var blockIndices = []string{"%ctaid.x", "%ctaid.y", "%ctaid.z"}

// ofBlock stands for what is set when a block begins.
func ofBlock(*warp, *Launch, int) uint64 { return 0 }

// firstLane is the lowest lane of a mask that is not empty.
func firstLane(m uint32) int { return bits.TrailingZeros32(m) & 31 }
