package debugview

import (
	"strings"

	"github.com/warmroute/warmroute/picker/metrics"
)

// advice says of a counter that should stay at zero what it means if it does not, and
// what to do.
type advice struct{ Metric, Means, Do string }

// failures are the counters of what goes wrong without an error, the gravest first.
var failures = []advice{ //nolint:gochecknoglobals // a table
	{
		"warmroute_picker_no_candidates_total",
		"Requests for which there was no endpoint.",
		"Look whether endpoints are down, or a condition removes them all: open a decision without a winner.",
	},
	{
		"warmroute_picker_overloaded_total",
		"Requests refused because caps removed every endpoint.",
		"Add endpoints, or raise the cap that the decisions name.",
	},
	{
		"warmroute_picker_strangers_total",
		"Candidates that are no member of the index: nothing is known or counted there.",
		"Join endpoints before they are offered, and offer the handle that Join returned last.",
	},
	{
		"warmroute_picker_blind_total",
		"Candidates of whose cache nothing was ever heard.",
		"Expected for a moment after a start. If it goes on, the endpoint's events do not arrive: see its " +
			"row above.",
	},
	{
		"warmroute_picker_all_stale_total",
		"Picks in which the signals of all endpoints were out of date.",
		"Scrapes of /metrics fail or are slower than StaleAfter: see the age of signals above.",
	},
	{
		"warmroute_picker_stale_total",
		"Candidates whose signals were out of date; they are scored with caution.",
		"See the age of signals above; compare the scrape interval with StaleAfter.",
	},
	{
		"warmroute_picker_clipped_total",
		"Scores outside 0 to 1.",
		"A scorer of the host's own is wrong: a decision's record names it.",
	},
	{
		"warmroute_picker_corrected_total",
		"Absurd input: negative numbers, times to come.",
		"Check what the host puts into candidates, and the clocks.",
	},

	{
		"warmroute_transport_untokenized_total",
		"Requests routed by load alone, as the tokens of their prompts were not known.",
		"See the counters of the tokenizer below.",
	},
	{
		"warmroute_transport_unparsed_total",
		"Requests whose body is not JSON, or has a wrong field: routed by load alone.",
		"Clients should not compress bodies; otherwise the engine's answer tells them what is wrong.",
	},
	{
		"warmroute_transport_opaque_total",
		"Compressed replies, in which the engine's report of cached tokens is not seen.",
		"Take Accept-Encoding from requests before they reach the transport.",
	},
	{
		"warmroute_transport_undialed_total",
		"Attempts at engines that could not be dialed.",
		"They are tried elsewhere and count as no failure. Is the engine up? Is the URL right?",
	},
	{
		"warmroute_transport_unrecorded_total",
		"Prompts that the index refused to record.",
		"See the log; did the endpoint leave, or is the prompt of another block size?",
	},

	{
		"warmroute_subscriber_unreadable_total",
		"Event payloads that cannot be decoded.",
		"The address is not an engine's event socket, or the engine speaks a dialect that is new: the log " +
			"has the first.",
	},
	{
		"warmroute_subscriber_stream_lost_total",
		"Events lost for good: the cache's picture has holes or remains.",
		"Give the subscriber the engine's replay socket, or enlarge the engine's replay buffer; " +
			"Subscriber.Reset begins anew.",
	},
	{
		"warmroute_subscriber_stream_gaps_total",
		"Places where events were missing, recovered or not.",
		"A few after a reconnection are normal. Many: the engine's or the router's queue overflows, see its " +
			"high-water mark.",
	},
	{
		"warmroute_subscriber_stream_replays_failed_total",
		"Requests to replay events that failed.",
		"Check the replay address; several routers may ask one engine at once.",
	},
	{
		"warmroute_subscriber_stream_unverified_total",
		"Fresh starts because a replay did not reach back far enough.",
		"Enlarge the engine's replay buffer (vLLM: buffer_steps).",
	},
	{
		"warmroute_subscriber_stream_unchecked_total",
		"Reconnections after which nothing proved that the engine is the same.",
		"Give the subscriber the engine's replay socket.",
	},
	{
		"warmroute_subscriber_stream_overflowed_total",
		"Events for which there was no room while a replay was awaited.",
		"Raise StreamOptions' limits, or find out why replays are slow.",
	},
	{
		"warmroute_subscriber_stream_invalid_total",
		"Frames without a valid number.",
		"The address is not an engine's event socket.",
	},
	{
		"warmroute_subscriber_stream_restarts_total",
		"Restarts of the engine.",
		"Expected on deployments. Otherwise it crashes: see its log.",
	},
	{
		"warmroute_subscriber_queue_dropped_total",
		"Events dropped because the router applied them too slowly.",
		"Raise Queue, or give the router more CPU.",
	},
	{
		"warmroute_subscriber_applier_malformed_total",
		"Events with a missing or contradictory field.",
		"The engine's version is newer than this library, or broken: report it with a captured payload.",
	},
	{
		"warmroute_subscriber_applier_unknown_total",
		"Events of a kind that is not known.",
		"The engine's version is newer than this library: the log has the tag.",
	},
	{
		"warmroute_subscriber_applier_skipped_tier_total",
		"Events that name a storage medium that is not known.",
		"The engine's version is newer than this library, or offloads to something of its own.",
	},
	{
		"warmroute_subscriber_applier_skipped_extras_total",
		"Blocks that depend on something that cannot be told, and are not credited.",
		"Expected for some multimodal models; their prompts match less than they could.",
	},
	{
		"warmroute_subscriber_applier_skipped_sparse_total",
		"Events with fewer hashes than blocks.",
		"Expected of models with sliding windows; if it grows with every event, report it.",
	},
	{
		"warmroute_subscriber_applier_skipped_size_total",
		"Blocks smaller than their group's, whose place is not known.",
		"Check the engine's block size and hash block size.",
	},
	{
		"warmroute_subscriber_applier_skipped_place_total",
		"Blocks whose place in their prompt is not known.",
		"See Decoder.ContentHashes.",
	},
	{
		"warmroute_subscriber_applier_skipped_rank_total",
		"Events of a rank that another subscriber has, or of one too many.",
		"Two sockets carry the same rank: check the ports of data-parallel ranks, and OtherRanks.",
	},
	{
		"warmroute_subscriber_applier_other_rank_total",
		"Events that name another rank than their socket's.",
		"The ports of data-parallel ranks are swapped, or one socket serves several.",
	},
	{
		"warmroute_subscriber_applier_zero_parents_total",
		"Events whose parent is 0.",
		"See Decoder.ZeroParent.",
	},
	{
		"warmroute_subscriber_applier_blocks_parked_dropped_total",
		"Blocks given up because their parent never appeared.",
		"Events were lost before the router heard of this engine: without a replay its older prefixes are " +
			"not known.",
	},
	{
		"warmroute_subscriber_applier_blocks_conflicts_total",
		"Engine hashes announced again with other contents.",
		"The engine's hashes collide, or two engines share one stream.",
	},
	{
		"warmroute_subscriber_applier_blocks_malformed_total",
		"Events that the index refused.",
		"The engine's version is newer than this library, or broken.",
	},

	{
		"warmroute_source_disconnects_unreachable_total",
		"Attempts to reach the event socket that failed.",
		"Check the address, the port and the network; is the engine up?",
	},
	{
		"warmroute_source_disconnects_handshake_total",
		"Connections that are no ZMQ publisher.",
		"The port is that of something else.",
	},
	{
		"warmroute_source_disconnects_silent_total",
		"Connections given up for their silence.",
		"The engine hangs, or a firewall drops idle connections.",
	},
	{
		"warmroute_source_disconnects_protocol_total",
		"Connections that broke the protocol.",
		"The port is that of something else, or a proxy is between.",
	},
	{
		"warmroute_source_dropped_total",
		"Events dropped between socket and queue.",
		"The router is too slow: raise the queue, or give it more CPU.",
	},
	{
		"warmroute_source_topic_changes_total",
		"Changes of topic within one socket.",
		"Several publishers are behind one address: give each its own, or part them with a Demux.",
	},
	{
		"warmroute_source_malformed_one_total",
		"Messages of one part, where three were expected.",
		"The port is that of another publisher.",
	},
	{
		"warmroute_source_malformed_two_total",
		"Messages of two parts, where three were expected.",
		"The port is that of another publisher.",
	},
	{
		"warmroute_source_replays_failed_total",
		"Replays that broke off.",
		"Check the replay address and the engine's load.",
	},
	{
		"warmroute_demux_unrouted_total",
		"Events of a stream that nobody follows.",
		"Add the endpoint, or correct the key.",
	},
	{
		"warmroute_demux_dropped_total",
		"Events dropped before they reached their stream.",
		"A subscriber is too slow, or has ended.",
	},

	{
		"warmroute_scraper_unread",
		"Endpoints whose /metrics was never read.",
		"Check the URL; see the error in the endpoint's row.",
	},
	{
		"warmroute_scraper_stale",
		"Endpoints whose /metrics was not read lately.",
		"See the error in the endpoint's row.",
	},
	{
		"warmroute_scraper_timeouts_total",
		"Scrapes that took too long.",
		"The engine is overloaded, or Timeout is too short.",
	},
	{
		"warmroute_scraper_transport_total",
		"Scrapes without a connection.",
		"Is the engine up? Is the URL right?",
	},
	{
		"warmroute_scraper_status_total",
		"Scrapes answered with another status than 200.",
		"Check the path, and authorization.",
	},
	{
		"warmroute_scraper_foreign_total",
		"Pages without any gauge that is known.",
		"The URL is not an engine's /metrics, or its names are new.",
	},
	{
		"warmroute_scraper_missing_total",
		"Gauges that a page should have and had not.",
		"The engine's version names them otherwise: report it.",
	},
	{
		"warmroute_scraper_late_total",
		"Scrapes begun too late.",
		"Raise Concurrency or Interval.",
	},
	{
		"warmroute_scraper_restarts_total",
		"Restarts seen in /metrics.",
		"Expected on deployments. Otherwise it crashes: see its log.",
	},

	{
		"warmroute_ledger_double_release_total",
		"Requests reported done twice.",
		"The host calls Done on two paths.",
	},
	{
		"warmroute_ledger_expired_total",
		"Reservations that ended by time.",
		"The host misses Done on some path, or Lease is shorter than a request.",
	},
	{
		"warmroute_ledger_late_total",
		"Requests that ended after their endpoint had left.",
		"Expected when endpoints are removed under load.",
	},
	{
		"warmroute_ledger_unreported_total",
		"Requests whose engine did not say how much it had cached.",
		"vLLM: --enable-prompt-tokens-details; in streams also stream_options.include_usage. Without it " +
			"predictions cannot be checked.",
	},
	{
		"warmroute_ledger_corrected_total",
		"Negative counts in engines' reports.",
		"Check what the host passes to Done.",
	},

	{
		"warmroute_index_evicted_total",
		"Blocks that the index forgot for want of room.",
		"Raise MaxBytes or OwnerBlocks if predictions fall behind what engines report.",
	},
	{
		"warmroute_index_withheld_total",
		"Owners left out of a lookup, as expired blocks were not swept in time.",
		"The router lacks CPU.",
	},

	{
		"warmroute_tokenizer_failed_total",
		"Prompts that no engine would tokenize: routed by load alone.",
		"Check that engines serve /tokenize; see the reasons below.",
	},
	{
		"warmroute_tokenizer_no_endpoint_total",
		"Prompts that there was nobody to tokenize.",
		"No engine of that model is up.",
	},
	{
		"warmroute_tokenizer_unsupported_total",
		"Prompts of a form that cannot be tokenized.",
		"Expected for some multimodal requests.",
	},
	{
		"warmroute_tokenizer_timeouts_total",
		"Calls of /tokenize that took too long.",
		"Engines are overloaded: raise the time, or MinBytes.",
	},
	{
		"warmroute_tokenizer_status_total",
		"Calls of /tokenize answered with another status than 200.",
		"The engine has no /tokenize, or needs authorization.",
	},
	{
		"warmroute_tokenizer_bad_answer_total",
		"Answers of /tokenize that make no sense.",
		"The URL is not that of an engine.",
	},
}

// failure is a counter that is not at zero.
type failure struct {
	advice

	Labels []metrics.Label
	Value  float64
}

// Where says in words whose counter it is.
func (f *failure) Where() string {
	values := make([]string, 0, len(f.Labels))
	for _, l := range f.Labels {
		if l.Name == "endpoint" || l.Name == "picker" {
			values = append(values, l.Value)
		} else {
			values = append(values, l.Name+" "+l.Value)
		}
	}
	return strings.Join(values, ", ")
}

// failed returns the counters of the table that are not at zero, in its order, and the
// names of those that are there and at zero.
func failed(all []metrics.Metric) (list []failure, zero []string) {
	for _, a := range failures {
		there, any := false, false
		for i := range all {
			if m := &all[i]; m.Name == a.Metric {
				there = true
				if m.Value > 0 {
					any = true
					list = append(list, failure{a, m.Labels, m.Value})
				}
			}
		}
		if there && !any {
			zero = append(zero, a.Metric)
		}
	}
	return list, zero
}
