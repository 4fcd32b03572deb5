// Package debugview is a page that shows what a router does: where requests went and
// why, which endpoints can be trusted, and what goes wrong without an error.
//
//	var pk *picker.Picker
//	view, err := debugview.New(debugview.Options{Sources: func() metrics.Sources {
//		return metrics.Sources{
//			Index: ix, Ledger: ledger, Pickers: map[string]*picker.Picker{"main": pk},
//			Endpoints: endpoints, // and what follows each
//		}
//	}})
//	pk, err = picker.New(picker.Options{
//		Index: ix, Ledger: ledger, Observers: []picker.Observer{view.Observer("main")},
//	})
//	admin.Handle("/debug/warmroute/", http.StripPrefix("/debug/warmroute", view))
package debugview
