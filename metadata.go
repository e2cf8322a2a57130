package berth

import (
	"runtime/debug"
	"slices"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// Metadata is what a model file says about itself.
type Metadata struct {
	IR              int64 // version of the file format
	Producer        string
	ProducerVersion string
	Domain          string // of the model, a reversed host name, say
	Version         int64  // of the model
	Doc             string
	Graph, GraphDoc string // name and documentation of the graph
	Opsets          []ssa.Opset
	Properties      map[string]string // metadata_props, such as the labels of a classifier; never nil
}

// Metadata returns a copy of what the model file says about itself. A model that was built and
// not read has no more than operator sets.
func (m *Model) Metadata() Metadata {
	module := m.source()
	g := module.Graph
	out := Metadata{IR: module.IR, Opsets: slices.Clone(module.Opsets), Properties: map[string]string{}, Graph: g.Name, GraphDoc: g.Doc}
	w, ok := module.Carried.(*onnxwire.Model)
	if !ok {
		return out
	}
	out.Producer, out.ProducerVersion, out.Domain, out.Version, out.Doc = w.ProducerName, w.ProducerVersion, w.Domain, w.ModelVersion, w.DocString
	for _, p := range w.MetadataProps {
		out.Properties[p.Key] = p.Value
	}
	return out
}

// Version is the version of berth in this program: a tag ("v0.1.0"), a pseudo-version, or
// "(devel)" where the program was built from a working copy, with its commit if known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	const path = "github.com/berth-onnx/berth"
	for _, dep := range info.Deps {
		if dep.Path == path {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			return withCommit(dep.Version, nil)
		}
	}
	if info.Main.Path != path {
		return "(unknown)"
	}
	return withCommit(info.Main.Version, info.Settings)
}

// withCommit adds the commit to a version that is no tag.
func withCommit(version string, settings []debug.BuildSetting) string {
	if version != "" && version != "(devel)" {
		return version
	}
	version = "(devel)"
	for _, s := range settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value[:min(12, len(s.Value))]
		}
		if s.Key == "vcs.modified" && s.Value == "true" {
			version += " with changes"
		}
	}
	return version
}
