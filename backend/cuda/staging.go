package cuda

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// Copies between host and device, by way of staging memory.

// stagedCopy is what goes from staging memory to the host when a segment is done.
type stagedCopy struct{ to, staged []byte }

// smallestChunk is the least staging memory that is taken at once.
const smallestChunk = 64 << 10

// stage gives staging memory for the present segment. The places depend on the sizes that are asked for alone.
func (m *memory) stage(bytes int64) ([]byte, error) {
	for ; m.chunk < len(m.staging); m.chunk, m.filled = m.chunk+1, 0 {
		if chunk := m.staging[m.chunk]; int64(len(chunk))-m.filled >= bytes {
			at := m.filled
			m.filled = (at + bytes + 63) &^ 63
			return chunk[at : at+bytes : at+bytes], nil
		}
	}
	size := max(bytes, smallestChunk)
	if err := m.budget.Ask("memory for copies to and from the device", size); err != nil {
		return nil, err
	}
	var chunk []byte
	err := m.machine.withRoom(m.ctx, func(d device.Device) (err error) {
		chunk, err = d.AllocHost(size)
		return err
	}, func(d device.Device) { _ = d.FreeHost(chunk) })
	if err != nil {
		return nil, err
	}
	m.staging = append(m.staging, chunk)
	m.filled = (bytes + 63) &^ 63
	return chunk[:bytes:bytes], nil
}

// copyIn notes a copy to the device of what bytes are now.
func (m *memory) copyIn(to device.Pointer, data []byte) error {
	staged, err := m.stage(int64(len(data)))
	if err != nil {
		return err
	}
	copy(staged, data)
	m.stats.BytesIn += int64(len(data))
	m.now.list = append(m.now.list, work{what: copiesIn, to: to, bytes: int64(len(data)), host: staged})
	return nil
}

// copyOut notes a copy to the host, which is there after flush.
func (m *memory) copyOut(to []byte, from device.Pointer) error {
	staged, err := m.stage(int64(len(to)))
	if err != nil {
		return err
	}
	m.stats.BytesOut += int64(len(to))
	m.outs = append(m.outs, stagedCopy{to, staged})
	m.now.list = append(m.now.list, work{what: copiesOut, from: from, bytes: int64(len(to)), host: staged})
	return nil
}

// copyInside notes a copy on the device.
func (m *memory) copyInside(to, from device.Pointer, bytes int64) {
	m.stats.BytesMoved += bytes
	m.now.list = append(m.now.list, work{what: copiesInside, to: to, from: from, bytes: bytes})
}
