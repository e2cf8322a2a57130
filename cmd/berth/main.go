// Command berth optimizes, plans, checks and runs ONNX models.
//
//	berth optimize MODEL -o OUT   rewrite, plan, verify, write
//	berth run MODEL               one inference
//	berth verify PATH...          ONNX test folders
//	berth compare MODEL           peak memory by planner
//	berth inspect MODEL           what is in a model
//	berth bench MODEL             timed runs
//	berth diff A B                first node at which two models differ
//	berth models                  the built-in models
//
// Exit codes: 0 done, 1 the model or the run failed, 2 usage, 3 a check compared
// and differed, 4 the input file is not a valid or supported model.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/berth-onnx/berth/ops/all" // the command knows every operator
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
