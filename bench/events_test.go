package bench_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

var forms = []struct {
	name    string
	asArray bool
}{{"array", true}, {"map", false}}

// BenchmarkDecode decodes events one after the other into a batch that is used again.
// They differ, since a processor learns the branches of one by heart.
func BenchmarkDecode(b *testing.B) {
	const payloads = 64
	for _, form := range forms {
		for _, blocks := range []int{1, 64, 640} {
			b.Run(fmt.Sprintf("form=%s/blocks=%d", form.name, blocks), func(b *testing.B) {
				p := harness.Payload{AsArray: form.asArray}
				var list [payloads][]byte
				for i := range list {
					p.Batch(1)
					p.Stored(0, harness.NewChain(uint64(i), harness.PromptTokens), 0, blocks)
					list[i] = slices.Clone(p.End())
				}
				var d kvevents.Decoder
				var batch kvevents.Batch
				i := 0
				b.ReportAllocs()
				b.SetBytes(int64(len(list[0])))
				for b.Loop() {
					harness.Must(b, d.Decode(list[i%payloads], &batch))
					i++
				}
				if len(batch.Events) != 1 || len(batch.Events[0].Hashes) != blocks {
					b.Fatal("not what was encoded")
				}
			})
		}
	}
}

// BenchmarkIngest decodes batches and applies them to the index: in each, blocks of a
// conversation are stored and as many of an old one evicted, so that the owner goes on
// holding the same number.
func BenchmarkIngest(b *testing.B) {
	const blocks = 64
	for _, form := range forms {
		b.Run(fmt.Sprintf("form=%s/blocks=%d", form.name, blocks), func(b *testing.B) {
			small(b)
			ingest(b, form.asArray, blocks, 16_384)
		})
	}
	b.Run(fmt.Sprintf("form=map/blocks=%d/held=1000000", blocks), func(b *testing.B) {
		large(b)
		ingest(b, false, blocks, 1_000_000)
	})
}

func ingest(b *testing.B, asArray bool, blocks, held int) {
	ix, err := prefixindex.New(prefixindex.Options{Seed: 1})
	harness.Must(b, err)
	ep, err := ix.Join("engine-0")
	harness.Must(b, err)
	applier, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: ix, Endpoint: ep, Model: harness.Scope().Model})
	harness.Must(b, err)
	var d kvevents.Decoder
	var batch kvevents.Batch
	apply := func(payload []byte) {
		harness.Must(b, d.Decode(payload, &batch))
		harness.Must(b, applier.Apply(&batch))
	}

	// Conversations are numbered in the order in which they come; each stays while
	// chains others come. Payloads for two rounds are made in advance, or as many as
	// memory allows, and then come round again with conversations long forgotten.
	chains := held / blocks
	c, old := harness.NewChain(0, blocks*harness.BlockTokens), harness.NewChain(0, blocks*harness.BlockTokens)
	p := harness.Payload{AsArray: asArray}
	for id := range chains {
		c.Become(uint64(id))
		p.Batch(1)
		p.Stored(0, c, 0, blocks)
		apply(p.End())
	}
	rounds := chains + min(chains, 256)
	payloads := make([][]byte, rounds)
	for i := range payloads {
		c.Become(uint64((chains + i) % rounds))
		old.Become(uint64(i))
		p.Batch(2)
		p.Stored(0, c, 0, blocks)
		p.Removed(0, old, 0, blocks)
		payloads[i] = slices.Clone(p.End())
	}
	i := 0
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		apply(payloads[i])
		if i++; i == len(payloads) {
			i = 0
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks), "ns/block")
	s := applier.Stats()
	if s.Blocks.Blocks != chains*blocks || s.Malformed+s.SkippedKind > 0 || s.Blocks.RemovedUnknown > 0 {
		b.Fatalf("%d blocks held, want %d: %+v", s.Blocks.Blocks, chains*blocks, s)
	}
}
