package program

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Nodes are prepared in batches, the nodes of a batch by several goroutines at once. What a kernel has absorbed is released
// behind each batch, so a batch ends where its constants are large: packing these uses all cores by itself.
const (
	batchNodes  = 512
	batchBytes  = 1 << 20 // of constants
	fewPrepares = 16      // nodes that one goroutine prepares as soon as several
)

// prepareAll asks the backend for a kernel for every node with static types.
func (c *compiler) prepareAll(ctx context.Context, g *ssa.Graph) error {
	for _, n := range g.Nodes {
		for _, b := range n.Bodies {
			if err := c.prepareAll(ctx, b); err != nil {
				return err
			}
		}
	}
	read := map[*ssa.Value]int{} // by constant with several readers: reads that kernels do without
	for nodes := g.Nodes; len(nodes) > 0; {
		batch := nodes[:batchOf(nodes)]
		nodes = nodes[len(batch):]
		made, err := c.prepareBatch(ctx, batch)
		if err != nil {
			return err
		}
		for i, p := range made {
			if p != nil {
				c.prepared.Put(batch[i].ID, batch[i], p)
				c.absorbed(g, batch[i], p, read)
			}
		}
	}
	return nil
}

// absorbed releases constants in the program's own graph that only kernels have read and that these hold.
func (c *compiler) absorbed(g *ssa.Graph, n *ssa.Node, p *prepared, read map[*ssa.Value]int) {
	for _, i := range p.Absorbed {
		v, reads := n.In[i], 1
		if len(v.Uses()) > 1 {
			read[v]++
			reads = read[v]
		}
		if c.opts.OwnGraph && reads == len(v.Uses()) && !g.IsResult(v) {
			v.Const = v.Const.Taken()
		}
	}
}

// batchOf is how many of some nodes, at least one, are prepared before their constants are released.
func batchOf(nodes []*ssa.Node) int {
	var bytes int64
	for i, n := range nodes[:min(len(nodes), batchNodes)] {
		for _, v := range n.In {
			if v != nil && v.Const != nil {
				bytes += v.Const.StoredBytes()
			}
		}
		if bytes > batchBytes {
			return i + 1
		}
	}
	return min(len(nodes), batchNodes)
}

// prepareBatch makes the kernels of some nodes; those without one are nil. Of several errors it returns that of the first node.
func (c *compiler) prepareBatch(ctx context.Context, nodes []*ssa.Node) ([]*prepared, error) {
	made, errs := make([]*prepared, len(nodes)), make([]error, len(nodes))
	var next atomic.Int64
	var failed atomic.Bool
	err := rescue.Share(c.preparers(len(nodes)), func() error {
		for i := next.Add(1) - 1; i < int64(len(nodes)) && !failed.Load(); i = next.Add(1) - 1 {
			if made[i], errs[i] = c.prepare(ctx, nodes[i]); errs[i] != nil {
				failed.Store(true)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return made, nil
}

// preparers is how many goroutines prepare so many nodes. A device's kernels are compiled one after the other.
func (c *compiler) preparers(nodes int) int {
	if c.remote != nil {
		return 1
	}
	return max(1, min(runtime.GOMAXPROCS(0), nodes/fewPrepares))
}

// prepare makes the kernel of a node, nil where no backend is asked for it.
func (c *compiler) prepare(ctx context.Context, n *ssa.Node) (_ *prepared, err error) {
	defer rescue.Into(&err)
	if err := ctx.Err(); err != nil || !hasKernel(n, c.opts.Memory) {
		return nil, err
	}
	return c.kernels.static(ctx, n)
}

// hasKernel reports whether a backend is asked for a kernel for a node before it runs.
func hasKernel(n *ssa.Node, memory ndarray.Budget) bool {
	return !ops.IsControl(n) && n.IsStatic() && joins(n) == nil && fits(n, memory)
}
