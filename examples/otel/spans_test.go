package otel_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmroute/warmroute/picker"
	"github.com/warmroute/warmroute/prefixindex"
	"github.com/warmroute/warmroute/scorer"
)

// Spans is an Observer that makes a span of each pick, within that of its request.
type Spans struct {
	Tracer trace.Tracer
	Index  *prefixindex.Index
}

func (s Spans) OnPick(e picker.PickEvent) {
	if e.Call.Context == nil || !trace.SpanFromContext(e.Call.Context).IsRecording() {
		return // not sampled: nothing is allocated
	}
	end := time.Now()
	_, span := s.Tracer.Start(e.Call.Context, "pick", trace.WithTimestamp(end.Add(-e.Prepare-e.Decide)))
	d := e.Decision
	cached, _ := d.CachedTokens.Get()
	span.SetAttributes(
		attribute.String("warmroute.endpoint", s.Index.Name(d.Endpoint)),
		attribute.Int("warmroute.candidates", len(e.Call.Candidates)),
		attribute.Int("warmroute.prompt_tokens", d.PromptTokens),
		attribute.Int("warmroute.cached_tokens", int(cached)),
		attribute.Float64("warmroute.score", d.Score),
		attribute.Float64("warmroute.margin", d.Margin),
	)
	if e.Err != nil {
		span.SetStatus(codes.Error, e.Err.Error())
	}
	span.End(trace.WithTimestamp(end))
}

func Example() {
	exported := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported)).Tracer("gateway")

	ix, _ := prefixindex.New(prefixindex.Options{})
	pk, _ := picker.New(picker.Options{
		Index: ix, Observers: []picker.Observer{Spans{tracer, ix}},
	})
	warm, _ := ix.Join("10.0.0.7:8000")
	cold, _ := ix.Join("10.0.0.8:8000")

	ctx, request := tracer.Start(context.Background(), "POST /v1/completions")
	d, _ := pk.Pick(&picker.Call{
		Context: ctx, // httptransport sets it
		Request: scorer.Request{PromptTokens: 7_000},
		Candidates: []scorer.Candidate{
			{Endpoint: warm, Cached: scorer.Holds(prefixindex.Held{GPU: 6_992})},
			{Endpoint: cold},
		},
	})
	d.Done(picker.Outcome{})
	request.End()

	spans := exported.GetSpans()
	for i := range spans {
		fmt.Println(spans[i].Name)
		for _, a := range spans[i].Attributes[:min(4, len(spans[i].Attributes))] {
			fmt.Printf("  %s = %s\n", a.Key, a.Value.Emit())
		}
	}
	// Output:
	// pick
	//   warmroute.endpoint = 10.0.0.7:8000
	//   warmroute.candidates = 2
	//   warmroute.prompt_tokens = 7000
	//   warmroute.cached_tokens = 6992
	// POST /v1/completions
}

// A span of a pick is a child of its request's and says what went wrong; a request that is
// not sampled has none.
func TestSpans(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported)).Tracer("gateway")
	ix, err := prefixindex.New(prefixindex.Options{})
	require.NoError(t, err)
	pk, err := picker.New(picker.Options{Index: ix, Observers: []picker.Observer{Spans{tracer, ix}}})
	require.NoError(t, err)

	_, err = pk.Pick(&picker.Call{Context: t.Context()})
	require.ErrorIs(t, err, picker.ErrNoCandidates)
	_, err = pk.Pick(&picker.Call{})
	require.ErrorIs(t, err, picker.ErrNoCandidates)
	require.Empty(t, exported.GetSpans())

	ctx, request := tracer.Start(t.Context(), "request")
	defer request.End()
	_, err = pk.Pick(&picker.Call{Context: ctx})
	require.ErrorIs(t, err, picker.ErrNoCandidates)
	spans := exported.GetSpans()
	require.Len(t, spans, 1)
	require.Equal(t, request.SpanContext().SpanID(), spans[0].Parent.SpanID())
	require.Equal(t, codes.Error, spans[0].Status.Code)
	require.Equal(t, "picker: no candidate", spans[0].Status.Description)
	require.False(t, spans[0].EndTime.Before(spans[0].StartTime))
}
