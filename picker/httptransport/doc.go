// Package httptransport is an http.RoundTripper that picks where a request goes: it reads
// the request, asks a picker, forwards, tries elsewhere if that fails before anything was
// answered, and releases what the pick reserved when the reply has ended. It fits
// wherever Go has a place for a transport, such as httputil.ReverseProxy and http.Client.
//
//	transport, err := httptransport.New(httptransport.Options{
//		Picker:    pk,
//		Tokenizer: client, // an *openaireq.Client
//		Backends: func(r *http.Request, b *openaireq.Body, list []httptransport.Backend) []httptransport.Backend {
//			for _, e := range engines { // the host's own
//				list = append(list, httptransport.Backend{
//					URL:       e.url,
//					Candidate: scorer.Candidate{Endpoint: e.handle, Signals: e.metrics.Signals()},
//				})
//			}
//			return list
//		},
//	})
//	proxy := &httputil.ReverseProxy{
//		Rewrite:      func(p *httputil.ProxyRequest) { p.SetXForwarded() },
//		Transport:    transport,
//		ErrorHandler: httptransport.ErrorHandler,
//	}
//
// # A round trip
//
//	read      the whole body, within the parser's limit
//	parse     chats, completions and responses; other bodies for their model at most
//	tokenize  as Options.Tokenizer or Bytes says; what has no prompt goes by load alone
//	pick      among what Backends gives
//	forward   the same method, path, header and bytes; Host is the backend's
//	retry     elsewhere, while nothing was answered to the caller
//	reply     as it comes, watched for the first token and the usage
//	release   at the end of the reply, however it ends, once
//
// Requests are parsed where [openaireq.KindOf] knows their path. All others, as for
// /v1/models, have no prompt and are picked by load. A body that cannot be parsed, as it
// is compressed or wrong, is forwarded as it is: the engine is the judge of its API.
//
// # Answers of its own
//
// Where no backend is asked, the reply is an error in OpenAI's JSON, with a nil error:
//
//	413   the body is larger than the parser's MaxBytes
//	429   all candidates are over a cap: picker.ErrOverloaded; with Retry-After
//	503   there is no candidate: picker.ErrNoCandidates; with Retry-After
//
// A backend that fails is an error of RoundTrip, which wraps that of the transport below.
// [ErrorHandler] writes it in the same JSON, as 502 or 504.
//
// # Retries
//
// A backend that cannot be dialed was not asked, and one that answers 429 or 503 has
// declined: the request goes to another, up to Options.Attempts in all. Anything else may
// have been computed in part, or may be what brought an engine down and would bring down
// the next; Options.Retry can decide otherwise. Each attempt is a pick of its own, without
// the backends tried before. If there is none left the last answer stands, or the last
// error. Once RoundTrip has returned a reply there are no retries.
//
// A backend that could not be dialed rests for Options.Rest: a dead engine has nothing in
// flight, and would look best to a pick again and again. If no other is left, resting
// ones are tried.
//
// # Replies
//
// Bytes pass as they come, unchanged and unbuffered. On their way the first token is
// noted, which in a stream is the first event that carries output; a reply in one piece
// shows no first token, since it comes when all is generated. usage, where the engine
// sends it, says how many prompt tokens were cached. It is looked for byte by byte in
// constant memory, whatever the length of the reply, and never asked for in the client's
// name: clients that want it in streams set stream_options.include_usage.
//
// The outcome given to Decision.Done is OK for a reply read to its end, Refused for 429
// and 503, Failed for a backend that could not be reached, answered 5xx or broke off,
// Canceled when the caller's context ended or it closed the body before the end. Other
// errors that the engine answers, such as 400, are the request's own and say nothing of
// the engine.
//
// Replies with 101, such as websockets, pass: the body can be written to, and the release
// is at its Close.
//
// # Limits
//
// As for any RoundTripper the reply's body must be closed, or read to its end; until then
// the request is in flight. A data-parallel rank is not addressed: the engine chooses, and
// Insert and Expect record at the rank that the pick found best. What an engine keeps
// between requests, such as a stored response asked for by its id, is not where the next
// pick goes. Trailers and informational replies pass.
//
// # Cost and concurrency
//
// A Transport is used by any number of goroutines. A request's body is held in memory
// until it is sent, and for retries until its reply begins; not while that streams.
// Besides tokenizing, a prompt of 10,240 ids, 64 backends and a stream of 200 events cost
// about 0.2 ms in all (BenchmarkRoundTrip), and a copy of the body.
package httptransport
