package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth/testmodels"
)

func (a *app) modelsCmd() *cobra.Command {
	return &cobra.Command{Use: "models", Short: "List the built-in models", Args: exactArgs(0, "no arguments"),
		Long:    "Models lists the models that need no file. Every command takes their names in the place of a path.",
		Example: "  berth models\n  berth run builtin:mlp",
		RunE: func(*cobra.Command, []string) error {
			type row struct {
				Name string `json:"name"`
				Doc  string `json:"doc"`
			}
			var rows []row
			for _, b := range testmodels.List() {
				rows = append(rows, row{b.Name, b.Doc})
			}
			if a.json {
				return a.printJSON(map[string]any{"models": rows})
			}
			t := newTable(a.out, "model", "what it is")
			for _, r := range rows {
				t.AppendRow([]any{"builtin:" + r.Name, r.Doc})
			}
			t.Render()
			return nil
		}}
}
