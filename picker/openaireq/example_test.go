package openaireq_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/warmroute/warmroute/kvevents/enginetest"
	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/picker/openaireq"
	"github.com/warmroute/warmroute/prefixindex"
)

// From an HTTP request to what a pick takes.
func ExampleParser_Read() {
	engine, err := enginetest.New(enginetest.Options{Model: "llama", Adapters: []string{"sql-v2"}})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()

	adapters := map[string]string{"sql-v2": "llama"} // adapter to base model
	parser, err := openaireq.NewParser(openaireq.Options{
		Resolve: func(model string) (base, adapter string) {
			if base, ok := adapters[model]; ok {
				return base, model
			}
			return model, ""
		},
		SessionHeader: "X-Session",
	})
	if err != nil {
		panic(err)
	}
	client, err := openaireq.NewClient(openaireq.ClientOptions{
		Endpoints: func(string) []string { return []string{server.URL} },
	})
	if err != nil {
		panic(err)
	}

	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(
		`{"model":"sql-v2","messages":[{"role":"user","content":"How many users?"}],"max_tokens":200}`))
	r.Header.Set("X-Session", "s-17")

	var body openaireq.Body
	if err := parser.Read(r, &body); err != nil {
		panic(err) // a *http.MaxBytesError is a 413
	}
	var prompt prefixindex.Prompt
	if _, err := body.Prompt(context.Background(), client, &prompt); err != nil {
		fmt.Println("routed by load:", err)
	}
	call := picker.Call{Request: body.Request, Prompt: &prompt}
	fmt.Println(call.Request.Model, call.Request.Adapter, call.Request.Session, call.Request.MaxTokens)
	fmt.Println("tokens:", prompt.Tokens())
	// Output:
	// llama sql-v2 s-17 200
	// tokens: 17
}

// A completion of token ids needs no tokenizer.
func ExampleBody_Prompt() {
	parser, err := openaireq.NewParser(openaireq.Options{})
	if err != nil {
		panic(err)
	}
	var body openaireq.Body
	err = parser.Parse(openaireq.Completion, []byte(`{"model":"llama","prompt":[128000,9906,11,1917,0]}`), &body)
	if err != nil {
		panic(err)
	}
	var prompt prefixindex.Prompt
	tokens, err := body.Prompt(context.Background(), nil, &prompt)
	fmt.Println(tokens.IDs, prompt.Tokens(), err)
	// Output:
	// [128000 9906 11 1917 0] 5 <nil>
}
