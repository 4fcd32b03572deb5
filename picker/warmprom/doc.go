// Package warmprom gives Prometheus what a router counts. It is a module of its own for
// Prometheus' client library.
//
//	collector, err := warmprom.New(warmprom.Options{Sources: sources})
//	registry := prometheus.NewRegistry()
//	registry.MustRegister(collector)
//
//	pk, err := picker.New(picker.Options{
//		Index: ix, Observers: []picker.Observer{collector.Observer("main")},
//	})
//	admin.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// # What is collected
//
// Each number of [metrics.Sources], under the name that picker/metrics has for it, read
// when it is collected. Beside them, of the pickers that an Observer watches and with
// their name as the label "picker":
//
//	warmroute_pick_seconds             a pick, by stage: prepare (match, read), decide
//	warmroute_first_token_seconds      from the pick to the first token
//	warmroute_request_seconds          from the pick to the end, by result
//	warmroute_predicted_cached_ratio   share of the prompt that was predicted to be cached
//	warmroute_reported_cached_ratio    share that the engine found in its cache
//
// There is no label for the endpoint on these: endpoints come and go, and series stay.
//
// A router that serves the text of picker/metrics or picker/debugview needs this package
// for the histograms only.
package warmprom
