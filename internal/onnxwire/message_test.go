package onnxwire

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// wire builds protobuf by hand, for messages that no writer of ours would make.
type wire []byte

func (w wire) varint(num protowire.Number, v uint64) wire {
	return protowire.AppendVarint(protowire.AppendTag(w, num, protowire.VarintType), v)
}

func (w wire) bytes(num protowire.Number, b []byte) wire {
	return protowire.AppendBytes(protowire.AppendTag(w, num, protowire.BytesType), b)
}

func (w wire) fixed32(num protowire.Number, v uint32) wire {
	return protowire.AppendFixed32(protowire.AppendTag(w, num, protowire.Fixed32Type), v)
}

func (w wire) fixed64(num protowire.Number, v uint64) wire {
	return protowire.AppendFixed64(protowire.AppendTag(w, num, protowire.Fixed64Type), v)
}

func checkFilled[T any, P message[T]](t *testing.T, name string, depth int) {
	t.Run(name, func(t *testing.T) {
		m := filled[T](depth)
		b, err := Marshal(P(m))
		require.NoError(t, err)
		back, err := parse[T, P](b, "message")
		require.NoError(t, err)
		assert.Equal(t, m, back)
	})
}

// Every field of every message comes back. The depths are the least that reach every type.
func TestEveryFieldRoundTrips(t *testing.T) {
	checkFilled[Model](t, "Model", 7)
	checkFilled[Attribute](t, "Attribute", 3)
	checkFilled[Sequence](t, "Sequence", 3)
	checkFilled[Map](t, "Map", 4)
	checkFilled[Optional](t, "Optional", 4)
	checkFilled[SparseTensor](t, "SparseTensor", 2)
	for _, alternative := range []Type{
		{Tensor: filled[TensorType](3)},
		{Sequence: filled[SequenceType](3)},
		{Map: filled[MapType](3)},
		{Optional: filled[OptionalType](3)},
		{SparseTensor: filled[TensorType](3)},
	} {
		b, err := Marshal(&alternative)
		require.NoError(t, err)
		back, err := parse[Type](b, "type")
		require.NoError(t, err)
		assert.Equal(t, &alternative, back)
	}
}

// The same value written in another way is read as the same message, and written back in one way.
func TestReadingIsLenient(t *testing.T) {
	tests := []struct {
		name string
		in   wire
		want Tensor
	}{
		{"dims unpacked", wire{}.varint(1, 2).varint(1, 300), Tensor{Dims: []int64{2, 300}}},
		{"dims packed", wire{}.bytes(1, []byte{2, 0xac, 2}), Tensor{Dims: []int64{2, 300}}},
		{"dims in both ways", wire{}.varint(1, 2).bytes(1, []byte{0xac, 2}), Tensor{Dims: []int64{2, 300}}},
		{"dims in two places", wire{}.varint(1, 2).varint(2, 1).varint(1, 3), Tensor{Dims: []int64{2, 3}, DataType: TypeFloat}},
		{"dims packed but none", wire{}.bytes(1, nil), Tensor{}},
		{"negative dim", wire{}.varint(1, math.MaxUint64), Tensor{Dims: []int64{-1}}},
		{"floats unpacked", wire{}.fixed32(4, 0x3f800000).fixed32(4, 0x40000000), Tensor{FloatData: []float32{1, 2}}},
		{"floats packed", wire{}.bytes(4, []byte{0, 0, 0x80, 0x3f}), Tensor{FloatData: []float32{1}}},
		{"doubles unpacked", wire{}.fixed64(10, 0x3ff0000000000000), Tensor{DoubleData: []float64{1}}},
		{"int32 data unpacked, negative", wire{}.varint(5, math.MaxUint64), Tensor{Int32Data: []int32{-1}}},
		{"int32 wider than 32 bits", wire{}.varint(2, 1<<32+1), Tensor{DataType: TypeFloat}},
		{"type of the future", wire{}.varint(2, 99), Tensor{DataType: 99}},
		{"last scalar wins", wire{}.varint(2, 0).varint(2, 7), Tensor{DataType: TypeInt64}},
		{"last scalar wins, though zero", wire{}.varint(2, 7).varint(2, 0), Tensor{Extra: Extra{Explicit: 1 << 2}}},
		{"singular messages merge", wire{}.bytes(3, wire{}.varint(1, 5)).bytes(3, wire{}.varint(2, 6)),
			Tensor{Segment: &Segment{Begin: 5, End: 6}}},
		{"raw data, empty", wire{}.bytes(9, nil), Tensor{RawData: []byte{}}},
		{"no UTF-8", wire{}.bytes(8, []byte("a\xff\xfe")), Tensor{Name: "a\xff\xfe"}},
		{"unknown fields of all wire types", wire{}.varint(50, 1).fixed32(51, 2).varint(2, 1).fixed64(52, 3).bytes(53, []byte("x")),
			Tensor{DataType: TypeFloat, Extra: Extra{Unknown: wire{}.varint(50, 1).fixed32(51, 2).fixed64(52, 3).bytes(53, []byte("x"))}}},
		{"unknown group", append(protowire.AppendTag(nil, 50, protowire.StartGroupType), 0x08, 1, 0x94, 0x03),
			Tensor{Extra: Extra{Unknown: append(protowire.AppendTag(nil, 50, protowire.StartGroupType), 0x08, 1, 0x94, 0x03)}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseTensor(test.in)
			require.NoError(t, err)
			assert.Equal(t, &test.want, got)
			checkRoundTrip(t, test.name, test.in, ParseTensor)
		})
	}
}

func TestPresence(t *testing.T) {
	tests := []struct {
		name string
		m    Message
		back Message
	}{
		{"no shape", &TensorType{ElemType: TypeFloat}, &TensorType{}},
		{"rank 0", &TensorType{ElemType: TypeFloat, Shape: &Shape{}}, &TensorType{}},
		{"dimension of nothing", &Shape{Dims: []*Dim{{}}}, &Shape{}},
		{"dimension 0", &Shape{Dims: []*Dim{{Kind: DimValue}}}, &Shape{}},
		{"dimension without a name", &Shape{Dims: []*Dim{{Kind: DimParam}}}, &Shape{}},
		{"dimension N", &Shape{Dims: []*Dim{{Kind: DimParam, Param: "N"}}}, &Shape{}},
		{"attribute 0.0", &Attribute{Name: "a", Type: AttrFloat}, &Attribute{}},
		{"attribute -0.0", &Attribute{Name: "a", Type: AttrFloat, F: float32(math.Copysign(0, -1))}, &Attribute{}},
		{"attribute 0", &Attribute{Name: "a", Type: AttrInt}, &Attribute{}},
		{"attribute \"\"", &Attribute{Name: "a", Type: AttrString, S: []byte{}}, &Attribute{}},
		{"empty list", &Attribute{Name: "a", Type: AttrInts}, &Attribute{}},
		{"reference", &Attribute{Name: "a", Type: AttrFloat, RefAttrName: "b"}, &Attribute{}},
		{"reference to text", &Attribute{Name: "a", Type: AttrString, RefAttrName: "b"}, &Attribute{}},
		{"scalar tensor", &Tensor{DataType: TypeFloat, RawData: []byte{0, 0, 0, 0}}, &Tensor{}},
		{"no data", &Tensor{DataType: TypeFloat, Dims: []int64{0}}, &Tensor{}},
		{"empty raw data", &Tensor{DataType: TypeFloat, Dims: []int64{0}, RawData: []byte{}}, &Tensor{}},
		{"empty strings", &Tensor{DataType: TypeString, StringData: [][]byte{{}, {}}}, &Tensor{}},
		{"left out input", &Node{Inputs: []string{"x", "", "y"}}, &Node{}},
		{"empty sequence", &Sequence{ElemType: ElemTensor}, &Sequence{}},
		{"empty optional", &Optional{Name: "o", ElemType: ElemTensor}, &Optional{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, err := Marshal(test.m)
			require.NoError(t, err)
			d := &decoder{data: b, end: len(b), budget: 1 << 20}
			d.message(test.back)
			require.Nil(t, d.err)
			assert.True(t, equal(test.m, test.back), "%+v became %+v", test.m, test.back)
		})
	}
}

// A value that Type names is written even if zero: other readers take a missing one for the operator's default.
func TestAttributeValueIsAlwaysWritten(t *testing.T) {
	b, err := Marshal(&Attribute{Name: "axis", Type: AttrInt})
	require.NoError(t, err)
	assert.Equal(t, []byte(wire{}.bytes(1, []byte("axis")).varint(3, 0).varint(20, uint64(AttrInt))), b)
}

func TestAttributeKindOfOldFiles(t *testing.T) {
	name := slices.Clip(wire{}.bytes(1, []byte("a")))
	tests := []struct {
		in   wire
		want AttributeType
	}{
		{name, AttrUndefined},
		{name.fixed32(2, 0), AttrFloat},
		{name.fixed32(2, 0x3f800000), AttrFloat},
		{name.varint(3, 0), AttrInt},
		{name.varint(3, 1), AttrInt},
		{name.bytes(4, nil), AttrString},
		{name.bytes(5, nil), AttrTensor},
		{name.bytes(6, nil), AttrGraph},
		{name.fixed32(7, 0), AttrFloats},
		{name.varint(8, 0), AttrInts},
		{name.bytes(9, nil), AttrStrings},
		{name.bytes(10, nil), AttrTensors},
		{name.bytes(11, nil), AttrGraphs},
		{name.bytes(14, nil), AttrTypeProto},
		{name.bytes(15, nil), AttrTypeProtos},
		{name.bytes(22, nil), AttrSparseTensor},
		{name.bytes(23, nil), AttrSparseTensors},
		{name.varint(3, 0).varint(20, uint64(AttrFloat)), AttrFloat},
	}
	for _, test := range tests {
		t.Run(test.want.String(), func(t *testing.T) {
			a, err := parse[Attribute](test.in, "attribute")
			require.NoError(t, err)
			assert.Equal(t, test.want, a.Kind())
			again, err := Marshal(a)
			require.NoError(t, err)
			back, err := parse[Attribute](again, "attribute")
			require.NoError(t, err)
			assert.Equal(t, test.want, back.Kind(), "after a round trip")
		})
	}
}

func TestLastAlternativeOfATypeWins(t *testing.T) {
	tensor := wire{}.bytes(1, wire{}.varint(1, 1))
	sequence := wire{}.bytes(4, wire{}.bytes(1, tensor))
	typ, err := parse[Type](append(append(wire{}, tensor...), sequence...), "type")
	require.NoError(t, err)
	assert.Nil(t, typ.Tensor)
	assert.NotNil(t, typ.Sequence)

	shape := wire{}.bytes(1, wire{}.bytes(2, nil))
	typ, err = parse[Type](append(append(wire{}, tensor...), shape...), "type")
	require.NoError(t, err)
	assert.Equal(t, &TensorType{ElemType: TypeFloat, Shape: &Shape{}}, typ.Tensor, "the same alternative twice merges")
}

func TestParseValue(t *testing.T) {
	tests := []struct {
		kind ElemKind
		want Message
	}{
		{ElemUndefined, &Tensor{Name: "v"}},
		{ElemTensor, &Tensor{Name: "v"}},
		{ElemSequence, &Sequence{Name: "v"}},
		{ElemMap, &Map{Name: "v"}},
		{ElemOptional, &Optional{Name: "v"}},
		{ElemSparseTensor, &SparseTensor{Values: &Tensor{Name: "v"}}},
	}
	for _, test := range tests {
		b, err := Marshal(test.want)
		require.NoError(t, err)
		got, err := ParseValue(t.Context(), b, test.kind)
		require.NoError(t, err)
		assert.Equal(t, test.want, got)
		got, err = ParseValue(t.Context(), []byte{0}, test.kind)
		assert.Error(t, err)
		assert.True(t, got == nil)
	}
}

func TestNames(t *testing.T) {
	assert.Equal(t, "BFLOAT16", TypeBFloat16.String())
	assert.Equal(t, "DataType(99)", DataType(99).String())
	assert.Equal(t, "DataType(-1)", DataType(-1).String())
	assert.Equal(t, "TYPE_PROTOS", AttrTypeProtos.String())
	assert.Equal(t, "AttributeType(77)", AttributeType(77).String())
	assert.Equal(t, "MAP", ElemMap.String())
	assert.Equal(t, "ElemKind(6)", ElemKind(6).String())
	assert.Equal(t, "FLOAT6E3M2", TypeFloat6E3M2.String())
}
