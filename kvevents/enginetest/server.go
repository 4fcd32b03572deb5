package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// maxBody bounds what a handler reads of one request.
const maxBody = 64 << 20

func (e *Engine) routes() {
	e.mux = http.NewServeMux()
	e.mux.HandleFunc("POST /v1/completions", e.serveCompletion)
	e.mux.HandleFunc("POST /v1/chat/completions", e.serveChat)
	e.mux.HandleFunc("GET /v1/models", e.serveModels)
	e.mux.HandleFunc("POST /tokenize", e.serveTokenize)
	e.mux.HandleFunc("POST /detokenize", e.serveDetokenize)
	e.mux.HandleFunc("POST /reset_prefix_cache", e.serveReset)
	e.mux.HandleFunc("GET /metrics", e.serveMetrics)
	e.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
}

// ServeHTTP serves the API of the package comment. A closed engine answers 503
// to everything. Any goroutine.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		writeError(w, ErrClosed)
		return
	}
	e.mux.ServeHTTP(w, r)
}

func (e *Engine) serveModels(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID          string  `json:"id"`
		Object      string  `json:"object"`
		Created     int64   `json:"created"`
		OwnedBy     string  `json:"owned_by"`
		Root        string  `json:"root"`
		Parent      *string `json:"parent"`
		MaxModelLen *int    `json:"max_model_len"`
	}
	e.mu.Lock()
	created := e.started.Unix()
	e.mu.Unlock()
	models := []model{{
		ID: e.o.Model, Object: "model", Created: created, OwnedBy: "vllm",
		Root: e.o.Model, MaxModelLen: &e.o.MaxModelTokens,
	}}
	for _, name := range e.o.Adapters {
		models = append(models, model{
			ID: name, Object: "model", Created: created, OwnedBy: "vllm",
			Root: name, Parent: &e.o.Model,
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": models})
}

type tokenizeBody struct {
	Model               string        `json:"model"`
	Prompt              *string       `json:"prompt"`
	Messages            []chatMessage `json:"messages"`
	AddGenerationPrompt *bool         `json:"add_generation_prompt"`
	ContinueFinal       bool          `json:"continue_final_message"`
	ReturnTokenStrs     bool          `json:"return_token_strs"`
}

func (b *tokenizeBody) tokenize() ([]uint32, error) {
	switch {
	case b.Messages != nil:
		generation := b.AddGenerationPrompt == nil || *b.AddGenerationPrompt
		if generation && b.ContinueFinal {
			return nil, fmt.Errorf("%w: continue_final_message and add_generation_prompt are both true", ErrRequest)
		}
		messages, err := parseMessages(b.Messages)
		if err != nil {
			return nil, err
		}
		tokens := TokenizeChat(messages, generation)
		if b.ContinueFinal {
			tokens = tokens[:len(tokens)-2] // without <|im_end|> and newline
		}
		return tokens, nil
	case b.Prompt != nil:
		return Tokenize(*b.Prompt), nil
	}
	return nil, fmt.Errorf("%w: neither prompt nor messages", ErrRequest)
}

func (e *Engine) serveTokenize(w http.ResponseWriter, r *http.Request) {
	var body tokenizeBody
	err := decode(w, r, &body)
	if err == nil {
		err = e.checkModel(body.Model)
	}
	var tokens []uint32
	if err == nil {
		tokens, err = body.tokenize()
	}
	if err != nil {
		writeError(w, err)
		return
	}
	var strs []string
	if body.ReturnTokenStrs {
		strs = make([]string, len(tokens))
		for i, t := range tokens {
			strs[i], _ = Detokenize([]uint32{t}) // our own token
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"count":         len(tokens),
		"max_model_len": e.o.MaxModelTokens,
		"tokens":        append([]uint32{}, tokens...),
		"token_strs":    strs,
	})
}

func (e *Engine) serveDetokenize(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model  string   `json:"model"`
		Tokens []uint32 `json:"tokens"`
	}
	err := decode(w, r, &body)
	if err == nil {
		err = e.checkModel(body.Model)
	}
	var text string
	if err == nil {
		text, err = Detokenize(body.Tokens)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": text})
}

// serveReset answers 409 when the reset is refused. (vLLM logs that and
// answers 200, which no test could tell from success.)
func (e *Engine) serveReset(w http.ResponseWriter, _ *http.Request) {
	if err := e.ResetPrefixCache(); err != nil {
		writeError(w, err)
	}
}

func (e *Engine) checkModel(name string) error {
	if name == "" || name == e.o.Model || e.adapter[name] != 0 {
		return nil
	}
	return fmt.Errorf("%w: %q", ErrModel, name)
}

func decode(w http.ResponseWriter, r *http.Request, body any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(body); err != nil {
		return fmt.Errorf("%w: body: %w", ErrRequest, err)
	}
	return nil
}

// writeError answers in the shape of OpenAI's API, as vLLM does.
func writeError(w http.ResponseWriter, err error) {
	status, kind := http.StatusInternalServerError, "InternalServerError"
	switch {
	case errors.Is(err, ErrRequest), errors.Is(err, ErrToken):
		status, kind = http.StatusBadRequest, "BadRequestError"
	case errors.Is(err, ErrModel):
		status, kind = http.StatusNotFound, "NotFoundError"
	case errors.Is(err, ErrInUse):
		status, kind = http.StatusConflict, "ConflictError"
	case errors.Is(err, ErrClosed), errors.Is(err, ErrRestarted):
		status, kind = http.StatusServiceUnavailable, "ServiceUnavailableError"
	}
	writeJSON(w, status, map[string]any{"error": map[string]any{
		"message": err.Error(), "type": kind, "param": nil, "code": status,
	}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the connection is gone: nothing to tell it
}
