// Package debugview is a page that shows what a router does: where requests went and why,
// which endpoints can be trusted, and what goes wrong without an error.
//
//	view, err := debugview.New(debugview.Options{Sources: func() metrics.Sources {
//		return metrics.Sources{
//			Index: ix, Ledger: ledger, Pickers: map[string]*picker.Picker{"main": pk},
//			Endpoints: endpoints(), // each with its subscribers and its scraped page
//		}
//	}})
//	pk, err = picker.New(picker.Options{
//		Index: ix, Ledger: ledger, Observers: []picker.Observer{view.Observer("main")},
//	})
//	admin.Handle("/debug/warmroute/", http.StripPrefix("/debug/warmroute", view))
//
// # What it shows
//
//	what is wrong now, by endpoint, and what to do about it
//	endpoints     view, age and delay of events, blocks, losses; load; predictions
//	history       share of prompts predicted and found in caches, requests that ended
//	decisions     the last ones, to be sorted, filtered and opened for an explanation
//	failures      counters that should stay at zero, what they mean, what to do
//
// It is one page of HTML with a script and a style sheet beside it, which load nothing
// from elsewhere. The script keeps it current, sorts and filters; without it decisions are
// links to pages. Beside it:
//
//	state.json             what the page shows
//	decision.json?id=7     the picker.Record of a decision, to be replayed
//	metrics                every number of metrics.Sources, in the Prometheus text format
//
// # What it costs
//
// The picker is asked for a Record of as many picks a second as Options.PerSecond, from
// which the last decisions are kept, within bounds of number and bytes. Nothing is
// allocated for that once they are reached. The other picks, and the end of each request,
// cost a lock and some additions. All else is done when somebody looks.
//
// # What it tells
//
// It shows names of endpoints, models and sessions, and lengths of prompts, but no text or
// token of any. It changes nothing, and answers GET only. It asks nobody for a password: it
// belongs on an admin port.
//
// # How an idle engine differs from a broken one
//
// Both are silent. The view of a cache whose events stopped is "stale" after
// StreamOptions.StaleAfter, and "live" for ever without that; the page also compares the
// last event with the last request that the endpoint answered, of which most should have
// brought an event, and says which it is.
package debugview
