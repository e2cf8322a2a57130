package onnximport

import (
	"context"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ReadValue reads a serialized value of the given kind, such as an input_0.pb of a test data set (TensorProto,
// SequenceProto, …). A message does not say of which kind it is: the kind is that of the declared type of the model's input
// or output, and a tensor where nothing is declared. The result may share data, which must not change while it is in use.
// A value that is not allowed is an [*ImportError]; an error in the encoding names the message and the byte.
func ReadValue(data []byte, kind ssa.Kind) (ndarray.Value, error) {
	return ReadValueContext(context.Background(), data, kind)
}

// ReadValueContext is [ReadValue] within the budget of a context ([ndarray.BudgetOf]), which can also end it.
func ReadValueContext(ctx context.Context, data []byte, kind ssa.Kind) (_ ndarray.Value, err error) {
	defer rescue.Into(&err)
	m, err := onnxwire.ParseValue(ctx, data, elemKinds[kind])
	if err != nil {
		return nil, err
	}
	return valueOf(ctx, m)
}

var elemKinds = map[ssa.Kind]onnxwire.ElemKind{ssa.KindSequence: onnxwire.ElemSequence, ssa.KindMap: onnxwire.ElemMap,
	ssa.KindOptional: onnxwire.ElemOptional, ssa.KindSparse: onnxwire.ElemSparseTensor}

// valueOf converts a parsed value: a tensor, sequence, optional, map or sparse tensor.
func valueOf(ctx context.Context, m onnxwire.Message) (ndarray.Value, error) {
	switch m := m.(type) {
	case *onnxwire.Tensor:
		return asValue(arrayOf(ctx, m))
	case *onnxwire.SparseTensor:
		return asValue(sparseArray(ctx, m))
	case *onnxwire.Sequence:
		return asValue(sequenceOf(ctx, m))
	case *onnxwire.Optional:
		return asValue(optionalOf(ctx, m))
	case *onnxwire.Map:
		return asValue(mapOf(ctx, m))
	}
	return nil, fail("", "%T is no value", m)
}

// asValue keeps a typed nil out of the interface.
func asValue[T ndarray.Value](v T, err error) (ndarray.Value, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func sequenceOf(ctx context.Context, s *onnxwire.Sequence) (*ndarray.Sequence, error) {
	out := &ndarray.Sequence{}
	switch s.ElemType {
	case onnxwire.ElemTensor:
		for _, t := range s.Tensors {
			out.Elem = ndarray.DType(t.DataType)
		}
		return out, collect(ctx, &out.Items, s.Tensors)
	case onnxwire.ElemSparseTensor:
		return out, collect(ctx, &out.Items, s.SparseTensors)
	case onnxwire.ElemSequence:
		return out, collect(ctx, &out.Items, s.Sequences)
	case onnxwire.ElemMap:
		return out, collect(ctx, &out.Items, s.Maps)
	case onnxwire.ElemOptional:
		return out, collect(ctx, &out.Items, s.Optionals)
	case onnxwire.ElemUndefined:
		return out, nil
	}
	return nil, fail("", "a sequence holds elements of kind %s", s.ElemType)
}

func collect[M onnxwire.Message](ctx context.Context, out *[]ndarray.Value, list []M) error {
	for _, m := range list {
		v, err := valueOf(ctx, m)
		if err != nil {
			return err
		}
		*out = append(*out, v)
	}
	return nil
}

func optionalOf(ctx context.Context, o *onnxwire.Optional) (*ndarray.Optional, error) {
	out := &ndarray.Optional{}
	var err error
	switch {
	case o.ElemType == onnxwire.ElemTensor && o.Tensor != nil:
		out.Value, err = valueOf(ctx, o.Tensor)
	case o.ElemType == onnxwire.ElemSparseTensor && o.SparseTensor != nil:
		out.Value, err = valueOf(ctx, o.SparseTensor)
	case o.ElemType == onnxwire.ElemSequence && o.Sequence != nil:
		out.Value, err = valueOf(ctx, o.Sequence)
	case o.ElemType == onnxwire.ElemMap && o.Map != nil:
		out.Value, err = valueOf(ctx, o.Map)
	case o.ElemType == onnxwire.ElemOptional && o.Optional != nil:
		out.Value, err = valueOf(ctx, o.Optional)
	}
	return out, err
}

func mapOf(ctx context.Context, m *onnxwire.Map) (*ndarray.Map, error) {
	out := &ndarray.Map{}
	if m.KeyType == onnxwire.TypeString {
		out.Keys = ndarray.Strings(texts(m.StringKeys), len(m.StringKeys))
	} else {
		out.Keys = ndarray.Of(m.Keys, len(m.Keys))
	}
	if m.Values == nil {
		out.Values = &ndarray.Sequence{}
		return out, nil
	}
	v, err := valueOf(ctx, m.Values)
	if err != nil {
		return nil, err
	}
	out.Values = joined(ctx, v, out.Keys.Len())
	return out, nil
}

// joined makes one array of a map's values: files hold them as a sequence of as
// many tensors of one element as there are keys, or of one tensor with all. What is
// neither stays as it is.
func joined(ctx context.Context, v ndarray.Value, n int) ndarray.Value {
	s, ok := v.(*ndarray.Sequence)
	if !ok || len(s.Items) == 0 {
		return v
	}
	first, ok := s.Items[0].(*ndarray.Array)
	if !ok || len(s.Items) != n && (len(s.Items) != 1 || first.Len() != n) {
		return v
	}
	out, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), first.DType, n)
	if err != nil {
		return v
	}
	each := n / len(s.Items)
	for i, item := range s.Items {
		a, ok := item.(*ndarray.Array)
		if !ok || a.DType != first.DType || a.Len() != each {
			return v
		}
		copy(out.Data[i*each*out.DType.Size():], a.Data)
		copy(out.Str[min(i*each, len(out.Str)):], a.Str)
	}
	return out
}
