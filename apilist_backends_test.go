package berth_test

import (
	"maps"
	"reflect"

	"github.com/berth-onnx/berth/backend/cuda"
	"github.com/berth-onnx/berth/backend/gorgonia/export"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// The exported functions and types of backend/cuda, of the packages below backend/gorgonia, and of those that they brought.
func init() {
	maps.Copy(apiFuncs, map[string]any{
		"backend/cuda.MeasureRuns":          cuda.MeasureRuns,
		"backend/cuda.NewTensor":            cuda.NewTensor,
		"backend/cuda.RunInto":              cuda.RunInto,
		"backend/cuda.StatsOf":              cuda.StatsOf,
		"backend/gorgonia/export.Model":     export.Model,
		"backend/gorgonia/exprgraph.Apply":  exprgraph.Apply,
		"backend/gorgonia/exprgraph.Import": exprgraph.Import,
		"backend/gorgonia/vm.EvalMode":      vm.EvalMode,
		"backend/gorgonia/vm.Freeze":        vm.Freeze,
		"backend/gorgonia/vm.Keep":          vm.Keep,
		"backend/gorgonia/vm.New":           vm.New,
		"backend/gorgonia/vm.Seed":          vm.Seed,
		"backend/gorgonia/vm.Threads":       vm.Threads,
		"backend/gorgonia/vm.WithContext":   vm.WithContext,
		"backend/gorgonia/vm.WithMaxMemory": vm.WithMaxMemory,
	})
	maps.Copy(apiTypes, map[string]reflect.Type{
		"backend/cuda.KernelError":         reflect.TypeFor[cuda.KernelError](),
		"backend/cuda.Limits":              reflect.TypeFor[cuda.Limits](),
		"backend/cuda.MemoryError":         reflect.TypeFor[cuda.MemoryError](),
		"backend/cuda.DeviceLostError":     reflect.TypeFor[cuda.DeviceLostError](),
		"backend/cuda.OldDeviceError":      reflect.TypeFor[cuda.OldDeviceError](),
		"backend/cuda.NoDeviceError":       reflect.TypeFor[cuda.NoDeviceError](),
		"backend/cuda.NoDriverError":       reflect.TypeFor[cuda.NoDriverError](),
		"backend/cuda.OldDriverError":      reflect.TypeFor[cuda.OldDriverError](),
		"backend/cuda.Profile":             reflect.TypeFor[cuda.Profile](),
		"backend/cuda.ProfileRow":          reflect.TypeFor[cuda.ProfileRow](),
		"backend/cuda.Stats":               reflect.TypeFor[cuda.Stats](),
		"backend/cuda.Tensor":              reflect.TypeFor[cuda.Tensor](),
		"backend/cuda.TensorError":         reflect.TypeFor[cuda.TensorError](),
		"backend/gorgonia/export.Error":    reflect.TypeFor[export.Error](),
		"backend/gorgonia/exprgraph.Error": reflect.TypeFor[exprgraph.Error](),
		"backend/gorgonia/exprgraph.Graph": reflect.TypeFor[exprgraph.Graph](),
		"backend/gorgonia/vm.GraphError":   reflect.TypeFor[vm.GraphError](),
		"backend/gorgonia/vm.InputError":   reflect.TypeFor[vm.InputError](),
		"backend/gorgonia/vm.VM":           reflect.TypeFor[vm.VM](),
	})
}
