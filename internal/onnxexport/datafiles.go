package onnxexport

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"hash"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/safefile"
)

// A model and its data file can not be replaced at the same moment, so a data file is never replaced by another content: its
// name has a hash of what is in it. The model is what changes:
//
//	m.onnx ──▶ m.onnx.0f3a….data        m.onnx ──▶ m.onnx.0f3a….data        m.onnx ┐   m.onnx.0f3a….data (removed last)
//	                                               m.onnx.b71c….data               └─▶ m.onnx.b71c….data
//	before                              data file complete                  model renamed
//
// A process that is killed in between leaves a data file that no model reads. The next one that saves a model under that
// name removes it.

const (
	dataSuffix = ".data"
	hashDigits = 16      // hexadecimal, of FNV-1a
	pieceSize  = 1 << 20 // bytes between two looks at the context
	maxBase    = 200     // bytes of the model's name that the data file's begins with: a name has at most 255
)

// dataName is the name of the data file of a model of the given name.
func dataName(ctx context.Context, model string, moved []movedTensor) (string, error) {
	h := fnv.New128a()
	if err := writeData(&endedHash{h, ctx}, moved); err != nil {
		return "", err
	}
	return dataPrefix(model) + hex.EncodeToString(h.Sum(nil))[:hashDigits] + dataSuffix, nil
}

// endedHash ends with a context.
type endedHash struct {
	hash.Hash
	ctx context.Context
}

func (h *endedHash) Write(b []byte) (n int, err error) {
	for piece := range slices.Chunk(b, pieceSize) {
		if err := h.ctx.Err(); err != nil {
			return n, err
		}
		k, _ := h.Hash.Write(piece)
		n += k
	}
	return n, nil
}

func dataPrefix(model string) string {
	return strings.ToValidUTF8(model[:min(len(model), maxBase)], "") + "."
}

// hashed reports that a file has a name as [Save] gives them to data files of a model.
func hashed(model, name string) bool {
	hash, ok := strings.CutPrefix(strings.TrimSuffix(name, dataSuffix), dataPrefix(model))
	return ok && len(hash) == hashDigits && strings.Trim(hash, "0123456789abcdef") == "" && strings.HasSuffix(name, dataSuffix)
}

// DataFiles lists the files in which the model at path keeps weights; none if path is no regular file. Locations that are no
// path below the model's folder are left out. The model is read within the context and its budget; an error says that it can not be.
func DataFiles(ctx context.Context, path string) ([]string, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	locations, err := locationsIn(ctx, path)
	dir, _ := filepath.Split(path)
	return beside(dir, locations), err
}

// beside are locations as paths from a folder.
func beside(dir string, locations []string) (out []string) {
	for _, location := range locations {
		if local := filepath.FromSlash(location); filepath.IsLocal(local) {
			out = append(out, dir+filepath.Clean(local))
		}
	}
	return out
}

// locationsIn lists what the model in a regular file refers to.
func locationsIn(ctx context.Context, path string) ([]string, error) {
	f, err := onnxwire.OpenWith(ctx, path, onnxwire.MapFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Model.DataLocations(), nil
}

// mostBeside bounds the files beside a model that are looked at for references to its data.
const mostBeside = 10000

// obsolete lists the data files of the model at path that no model beside it reads: of those that the model replaced has
// read, the ones that are named after it, and, if no other writer can be about to refer to them, all those that [Save] names. It lists none where
// that is not known: the folder has more than mostBeside files, one of them can not be read, one is named like a model and is none, or the context has ended.
// Models in other folders are not looked for.
func obsolete(ctx context.Context, path string, read []string, alone bool) []string {
	dir, model := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil || len(entries) > mostBeside {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		ours := alone && hashed(model, name) ||
			(name == model+dataSuffix || hashed(model, name)) && slices.Contains(read, dir+name)
		if ours && e.Type().IsRegular() {
			out = append(out, dir+name)
		}
	}
	for _, e := range entries {
		temporary, _ := filepath.Match(safefile.Pattern, e.Name())
		if len(out) == 0 || temporary || slices.Contains(out, dir+e.Name()) {
			continue
		}
		used, err := usedBy(ctx, dir, e.Name(), model)
		if err != nil || ctx.Err() != nil {
			return nil
		}
		out = slices.DeleteFunc(out, func(data string) bool { return slices.Contains(used, data) })
	}
	return out
}

// usedBy lists the data files that a file in a folder refers to: none for what is no model. Its error says that this is not known.
func usedBy(ctx context.Context, dir, name, model string) ([]string, error) {
	info, err := os.Stat(dir + name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a link to nothing
		return nil, nil
	case err != nil || !info.Mode().IsRegular():
		return nil, err
	}
	names, err := locationsIn(ctx, dir+name)
	var syntax *onnxwire.SyntaxError
	var other *onnxwire.ModelError
	if (errors.As(err, &syntax) || errors.As(err, &other)) && !namedLikeModel(name, model) {
		return nil, nil
	}
	return beside(dir, names), err
}

// namedLikeModel reports the name of a model, or of a copy of the model beside it, like m.onnx.bak.
func namedLikeModel(name, model string) bool {
	stem := strings.TrimSuffix(model, filepath.Ext(model))
	return (strings.Contains(strings.ToLower(name), ".onnx") || strings.HasPrefix(name, stem)) && !strings.HasSuffix(name, dataSuffix)
}
