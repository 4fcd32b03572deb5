package bench_test

import (
	"fmt"
	"slices"
	"testing"

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
				p := payload{asArray: form.asArray}
				var list [payloads][]byte
				for i := range list {
					p.batch(1)
					p.stored(0, newChain(uint64(i), promptTokens), 0, blocks)
					list[i] = slices.Clone(p.end())
				}
				var d kvevents.Decoder
				var batch kvevents.Batch
				i := 0
				b.ReportAllocs()
				b.SetBytes(int64(len(list[0])))
				for b.Loop() {
					must(b, d.Decode(list[i%payloads], &batch))
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
	must(b, err)
	ep, err := ix.Join("engine-0")
	must(b, err)
	applier, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: ix, Endpoint: ep, Model: scope.Model})
	must(b, err)
	var d kvevents.Decoder
	var batch kvevents.Batch
	apply := func(payload []byte) {
		must(b, d.Decode(payload, &batch))
		must(b, applier.Apply(&batch))
	}

	// Conversations are numbered in the order in which they come; each stays while
	// chains others come. Payloads for two rounds are made in advance, or as many as
	// memory allows, and then come round again with conversations long forgotten.
	chains := held / blocks
	c, old := newChain(0, blocks*blockTokens), newChain(0, blocks*blockTokens)
	p := payload{asArray: asArray}
	for id := range chains {
		c.become(uint64(id))
		p.batch(1)
		p.stored(0, c, 0, blocks)
		apply(p.end())
	}
	rounds := chains + min(chains, 256)
	payloads := make([][]byte, rounds)
	for i := range payloads {
		c.become(uint64((chains + i) % rounds))
		old.become(uint64(i))
		p.batch(2)
		p.stored(0, c, 0, blocks)
		p.removed(0, old, 0, blocks)
		payloads[i] = slices.Clone(p.end())
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
