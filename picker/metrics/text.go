package metrics

import (
	"io"
	"iter"
	"strings"
)

// ContentType is that of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Write writes metrics as a page of the Prometheus text format, those of one name
// together.
//
// O(metrics); it allocates. The error is the writer's.
func Write(w io.Writer, all iter.Seq[Metric]) error {
	var names []string
	families := map[string][]string{}
	for m := range all {
		if families[m.Name] == nil {
			names = append(names, m.Name)
			kind := "counter"
			if m.Kind == Gauge {
				kind = "gauge"
			}
			help := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(m.Help)
			families[m.Name] = []string{"# HELP " + m.Name + " " + help, "# TYPE " + m.Name + " " + kind}
		}
		families[m.Name] = append(families[m.Name], m.String())
	}
	for _, name := range names {
		if _, err := io.WriteString(w, strings.Join(families[name], "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
