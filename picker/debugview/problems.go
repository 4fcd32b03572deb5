package debugview

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// severity of a problem.
type severity uint8

const (
	notice severity = iota // passes by itself, or may be meant so
	warning
	failing
)

// problem is something that is wrong now with an endpoint.
type problem struct {
	Severity severity
	Endpoint string
	Rank     int
	What, Do string
}

const (
	lateEvents   = 2 * time.Second
	oldSignals   = 5 * time.Second // as the picker's default
	slowToDial   = 3 * time.Second
	muchDoubt    = 0.2
	fewReports   = 20
	backlogIsBad = 1000
)

// problems says what is wrong with e, and what to do.
func (e *endpoint) problems() (list []problem) {
	say := func(s severity, do, what string, args ...any) {
		list = append(list, problem{s, e.Name, e.Rank, fmt.Sprintf(what, args...), do})
	}
	e.eventProblems(say)
	if e.Ranks == 0 {
		return list
	}
	age := e.now.Sub(e.Stats.SignalsAt)
	switch {
	case !e.Scraped:
	case e.Stats.SignalsAt.IsZero():
		say(failing, "Is the engine up, and is the URL its own? "+e.ScrapeError, "Its metrics were never read.")
	case e.ScrapeError != "" || age > oldSignals:
		say(failing, "Is the engine up? "+e.ScrapeError, "Its metrics are %s old.", ago(age))
	}
	switch c := &e.Calibration; {
	case c.Doubt >= muchDoubt:
		say(warning, "Do prompts and events agree on model, adapter, salt and chat template? Is prefix caching on? "+
			"Were events lost?",
			"It finds less in its cache than predicted: %.0f %% of a prediction is not believed any more.", 100*c.Doubt)
	case c.Reported == 0 && c.Unreported >= fewReports:
		say(notice, "vLLM: --enable-prompt-tokens-details, and stream_options.include_usage in streams.",
			"It does not say how much of a prompt it had cached, so that predictions cannot be checked.")
	}
	return list
}

// eventProblems says what is wrong with the picture of e's cache.
func (e *endpoint) eventProblems(say func(s severity, do, what string, args ...any)) {
	s := &e.Subscriber
	switch {
	case e.Source != nil && e.Source.State != zmtp.Connected && e.now.Sub(e.Source.Since) > slowToDial:
		do := "Check the address of its event socket and the network; is the engine up?"
		if e.source != nil {
			do += " Last: " + e.source.Error() + "."
		}
		say(failing, do, "Its event socket has not been connected for %s.", ago(e.now.Sub(e.Source.Since)))
	case !e.Followed && e.View == "never":
		say(notice, "Attach a subscriber to its event socket, or call Index.Insert with what is sent there.",
			"Nobody follows its events, and nothing is recorded of what is sent there.")
	case e.View == "never" && !e.served.IsZero():
		say(failing, "Does it publish KV events (vLLM: --kv-events-config)? Are address and topic right?",
			"No event was ever heard of it, though it has answered requests.")
	case e.View == "never":
		say(notice, "Nothing, if it is new. What it cached before is known once its replay socket is given.",
			"No event was heard of it yet, and it was sent nothing that should have brought one.")
	case e.View == "stale" && e.served.After(s.LastFrame.Add(lateEvents)):
		say(failing, "Does the engine still publish? Is the connection alive? Until events come again, "+
			"what is known of its cache gets old.",
			"Its events have stopped: the last came %s ago, and it has answered requests since.",
			ago(e.now.Sub(s.LastFrame)))
	case e.View == "stale":
		say(notice, "Nothing, if it is idle. If it often is, raise StreamOptions.StaleAfter: stale caches count less.",
			"No event for %s, and no request that should have brought one.", ago(e.now.Sub(s.LastFrame)))
	case e.View == "gap":
		say(failing, "Give its subscriber the replay socket, or a larger replay buffer on the engine. "+
			"Until its cache is cleared, predictions there may be wrong.",
			"Events were lost for good: %d of them, in %d gaps.", s.Stream.Lost, s.Stream.Gaps)
	case e.View == "resyncing":
		say(notice, "Wait. If it stays so, check the replay address.", "Events were lost and are being fetched again.")
	case e.Followed && e.served.After(s.LastFrame.Add(lateEvents)):
		say(warning, "Short requests, and those that it had cached to the end, bring no event. If it answers others, "+
			"its events have stopped: check its publisher; StreamOptions.StaleAfter would have said so.",
			"No event for %s, though it has answered requests since.", ago(e.now.Sub(s.LastFrame)))
	}
	if s.Lag > lateEvents {
		say(warning, "Compare the clocks of both machines; if they agree, the engine or the router cannot keep up.",
			"Its events arrive %s late.", ago(s.Lag))
	}
	if s.Queued > backlogIsBad {
		say(warning, "The router lacks CPU, or lookups and writes contend.",
			"%d of its events wait to be applied.", s.Queued)
	}
}
