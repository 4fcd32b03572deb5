// Package metrics is one table of everything that the library counts.
//
// Each of the library's packages counts in plain Stats structs. This package turns any
// of them into [Metric] values, with a name, help, a unit and labels: enough for a text
// page, a Prometheus collector, or a line in a log.
//
//	for m := range metrics.Of(pk.Stats(), metrics.Label{Name: "picker", Value: "chat"}) {
//		fmt.Println(m.Name, m.Value)
//	}
//
// [Sources] names the parts of a whole router, of which [Sources.All] yields every number,
// and [Write] makes a page: what a host needs for its /metrics, and what picker/debugview
// and picker/warmprom read.
//
// Names follow from the structs: the field Corrected of a picker's Stats is the counter
// warmroute_picker_corrected_total, and LastFrame of a subscriber's the gauge
// warmroute_subscriber_last_frame_seconds. So no counter can be left out, and renaming
// a field renames its metric. Help is the field's comment, kept in help.go: after a
// change of a Stats struct, run
//
//	go test ./picker/metrics -run Help -update
package metrics
