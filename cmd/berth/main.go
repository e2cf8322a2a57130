// Command berth optimizes, plans, checks and runs ONNX models.
// A command is a file of this package; berth --help lists commands and exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/berth-onnx/berth/cmd/berth/internal/holder"
	_ "github.com/berth-onnx/berth/cmd/berth/internal/trim"
	_ "github.com/berth-onnx/berth/internal/ops/wide" // results are compared with those of models in float64
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/internal/sysmem"
	_ "github.com/berth-onnx/berth/ops/all" // the command knows every operator
)

func main() {
	sysmem.CountProgram()
	sysmem.DropCode() // what the initialization of all packages ran, most of it never again
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.Sleep(100 * time.Millisecond) // timeout(1) signals the process and its group
		stop()                             // a second signal ends the process at once
	})
	safefile.CloseRemoved = holder.Keep
	endProcess = func(code int) {
		if ctx.Err() != nil || saidEnded.Load() {
			holder.Start()
		}
		os.Exit(code)
	}
	endProcess(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
