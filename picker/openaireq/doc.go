// Package openaireq turns the body of an OpenAI-style request into what a pick needs:
// a scorer.Request and a prefixindex.Prompt.
//
//	parser, err := openaireq.NewParser(openaireq.Options{})
//	client, err := openaireq.NewClient(openaireq.ClientOptions{
//		Endpoints: func(model string) []string { return engines },
//	})
//
//	var body openaireq.Body // reused, as from a sync.Pool
//	var prompt prefixindex.Prompt
//	if err := parser.Read(r, &body); err != nil { ... }          // r can be forwarded still
//	tokens, err := body.Prompt(r.Context(), client, &prompt)     // err: prompt is empty
//	call.Request, call.Prompt = body.Request, &prompt
//
// # Bodies
//
// [Parser.Parse] reads bodies of /v1/chat/completions, /v1/completions and
// /v1/responses: the model, which may be a LoRA adapter's name; cache_salt; the limit of
// generated tokens; a session key; the prompt, where it is given as token ids; and where
// the text is, where it is not. It makes one pass over the bytes, checks that they are
// JSON, and decodes nothing it does not need. Bodies are never rewritten: unknown
// fields, order and spelling reach the engine as they came. [ReadBody] reads the body of
// an http.Request within a limit and re-arms the request; [Parser.Read] does both.
//
// A field with a wrong value is an error that names it, but the engine is the judge of
// its API: a host may forward a request whose body gave an error.
//
// # Tokens
//
// What an engine has cached goes by tokens, after its chat template; no estimate of them
// will match. They come from
//
//   - the request, if it is a completion of token ids: no I/O;
//   - a [Client], which asks an engine, or a server that renders prompts for engines;
//   - a [Tokenizer] of the host's own;
//   - or not at all: [Body.PromptBytes] makes a prompt of bytes, for the mode without
//     events.
//
// Where a prompt's tokens cannot be known for sure they are not known: the error is
// [ErrUntokenized], the prompt is empty, and a pick goes by load. That is so of several
// prompts in one request, and of prompts of which a part is kept by the server
// (previous_response_id, conversation, a stored template) or is not text
// (prompt_embeds), or which are cut (truncate_prompt_tokens).
//
// # What a Client asks
//
// By default POST /tokenize, in its completion or its chat form. Passed on as they are
// spelled: prompt or messages, add_special_tokens; of chats also tools, chat_template,
// chat_template_kwargs, add_generation_prompt, continue_final_message,
// mm_processor_kwargs and media_io_kwargs; and the base model's name for model, since
// adapters share its tokenizer. /tokenize does not take documents and reasoning_effort,
// knows nothing of responses, and does not say what images become: such requests are
// not asked about. tool_choice changes the prompt only of a vLLM that was started with
// --exclude-tools-when-tool-choice-none, which /tokenize does not follow; use Render
// there.
//
// With ClientOptions.Render it posts the request as it is, under the base model's name,
// to /v1/chat/completions/render, /v1/completions/render or /v1/responses/render. Those
// see all that the prompt depends on, and say by which hash and where images stand in
// it, so that the prompt has the extras that events have. Newer versions of vLLM serve
// them; 0.30 added that of responses, and wants --enable-scale-out for all three.
//
// Which engine: those that Endpoints returns, in turn; if one cannot be reached, is
// overloaded or late, it is left alone for Cooldown, and the next is asked, as far as
// Timeout allows. An answer that the request itself may have brought about, such as 400
// or 500, is final.
//
// The cache's key is the endpoint's path and the whole question: 128 bits of hash under
// random seeds. It serves retries and repeated prompts; a conversation's next turn is
// another question. It is bounded in bytes, least recently used first out.
//
// # Cost and concurrency
//
// Parsing 100,000 tokens of text, 450 kB, takes about 0.1 ms and allocates nothing when
// a Body is reused; as ids, 600 kB, about 0.5 ms. A Client adds what the engine takes,
// and about 0.7 ms for such a prompt, or 0.1 ms if it is cached. It reports what it
// added: Tokens.Took for one request, ClientStats for all. A Parser and a
// Client may be used from anywhere, a Body by one goroutine at a time.
package openaireq
