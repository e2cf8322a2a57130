package onnxwire

// The messages about running one model on several devices. berth carries them through untouched.

// DeviceConfiguration is DeviceConfigurationProto: a named set of devices a model can be spread over.
type DeviceConfiguration struct {
	Name       string
	NumDevices int32
	Devices    []string
	Extra
}

func (c *DeviceConfiguration) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			c.Name = d.str(&c.Extra)
		case 2:
			c.NumDevices = d.int32(&c.Extra)
		case 3:
			c.Devices = d.strs(c.Devices)
		default:
			d.unknown(&c.Extra)
		}
	}
}

func (c *DeviceConfiguration) encode(e *encoder) {
	e.str(1, c.Name, &c.Extra)
	e.int32(2, c.NumDevices, &c.Extra)
	e.strs(3, c.Devices)
	e.unknown(&c.Extra)
}

// NodeDeviceConfiguration is NodeDeviceConfigurationProto: how a node is spread under one DeviceConfiguration.
type NodeDeviceConfiguration struct {
	ConfigurationID string // Name of the DeviceConfiguration
	ShardingSpecs   []*ShardingSpec
	PipelineStage   int32
	Extra
}

func (c *NodeDeviceConfiguration) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			c.ConfigurationID = d.str(&c.Extra)
		case 2:
			c.ShardingSpecs = repeated(d, c.ShardingSpecs, "sharding_spec")
		case 3:
			c.PipelineStage = d.int32(&c.Extra)
		default:
			d.unknown(&c.Extra)
		}
	}
}

func (c *NodeDeviceConfiguration) encode(e *encoder) {
	e.str(1, c.ConfigurationID, &c.Extra)
	writeRepeated(e, 2, c.ShardingSpecs)
	e.int32(3, c.PipelineStage, &c.Extra)
	e.unknown(&c.Extra)
}

// ShardingSpec is ShardingSpecProto: how one input or output of a node is cut over devices.
type ShardingSpec struct {
	TensorName            string
	Devices               []int64
	IndexToDeviceGroupMap []*IntIntListEntry
	ShardedDims           []*ShardedDim
	Extra
}

func (s *ShardingSpec) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.TensorName = d.str(&s.Extra)
		case 2:
			s.Devices = varints(d, s.Devices)
		case 3:
			s.IndexToDeviceGroupMap = repeated(d, s.IndexToDeviceGroupMap, "index_to_device_group_map")
		case 4:
			s.ShardedDims = repeated(d, s.ShardedDims, "sharded_dim")
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *ShardingSpec) encode(e *encoder) {
	e.str(1, s.TensorName, &s.Extra)
	writeVarints(e, 2, s.Devices)
	writeRepeated(e, 3, s.IndexToDeviceGroupMap)
	writeRepeated(e, 4, s.ShardedDims)
	e.unknown(&s.Extra)
}

// IntIntListEntry is IntIntListEntryProto: one entry of a map from an integer to a list of integers.
type IntIntListEntry struct {
	Key   int64
	Value []int64
	Extra
}

func (i *IntIntListEntry) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			i.Key = d.int64(&i.Extra)
		case 2:
			i.Value = varints(d, i.Value)
		default:
			d.unknown(&i.Extra)
		}
	}
}

func (i *IntIntListEntry) encode(e *encoder) {
	e.int64(1, i.Key, &i.Extra)
	writeVarints(e, 2, i.Value)
	e.unknown(&i.Extra)
}

// ShardedDim is ShardedDimProto: how one axis is cut.
type ShardedDim struct {
	Axis            int64
	SimpleShardings []*SimpleShardedDim
	Extra
}

func (s *ShardedDim) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.Axis = d.int64(&s.Extra)
		case 2:
			s.SimpleShardings = repeated(d, s.SimpleShardings, "simple_sharding")
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *ShardedDim) encode(e *encoder) {
	e.int64(1, s.Axis, &s.Extra)
	writeRepeated(e, 2, s.SimpleShardings)
	e.unknown(&s.Extra)
}

// SimpleShardedDim is SimpleShardedDimProto: a length cut into NumShards parts.
type SimpleShardedDim struct {
	Kind      DimKind // which of Value and Param says the length
	Value     int64
	Param     string
	NumShards int64
	Extra
}

func (s *SimpleShardedDim) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.Kind, s.Value, s.Param = DimValue, int64(d.varint()), ""
		case 2:
			s.Kind, s.Value, s.Param = DimParam, 0, d.text()
		case 3:
			s.NumShards = d.int64(&s.Extra)
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *SimpleShardedDim) encode(e *encoder) {
	switch s.Kind {
	case DimValue:
		e.varint(1, uint64(s.Value))
	case DimParam:
		e.text(2, s.Param)
	}
	e.int64(3, s.NumShards, &s.Extra)
	e.unknown(&s.Extra)
}
