package rivals_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/warmroute/warmroute/bench/internal/harness"
	"github.com/warmroute/warmroute/kvevents"
)

// stored is what a router needs of a BlockStored event.
type stored struct {
	hashes []uint64
	parent uint64
	root   bool
	tokens []uint32
	size   int
}

// decoders read a batch of one BlockStored event into s, whose memory they may use again.
// The generic ones read any message into interfaces, as a first version does; the others
// know the schema of one release, and reject or misread the next one's. Ours reads every
// form and release.
var decoders = []struct {
	name string
	form string // "": both
	open func() func(payload []byte, s *stored) error
}{
	{"warmroute", "", openOurs},
	{"msgp-typed", "array", openMsgpTyped},
	{"msgp-generic", "", openMsgpGeneric},
	{"vmihailenco-typed", "array", openVmihailencoTyped},
	{"vmihailenco-generic", "", openVmihailencoGeneric},
}

// BenchmarkDecode is that of the library's own benchmarks.
func BenchmarkDecode(b *testing.B) {
	const payloads = 64
	for _, form := range []string{"array", "map"} {
		for _, blocks := range []int{1, 64, 640} {
			for _, d := range decoders {
				if d.form != "" && d.form != form {
					continue
				}
				b.Run(fmt.Sprintf("form=%s/blocks=%d/impl=%s", form, blocks, d.name), func(b *testing.B) {
					p := harness.Payload{AsArray: form == "array"}
					var list [payloads][]byte
					for i := range list {
						p.Batch(1)
						p.Stored(0, harness.NewChain(uint64(i), harness.PromptTokens), 0, blocks)
						list[i] = slices.Clone(p.End())
					}
					var s stored
					decode := d.open()
					harness.Must(b, decode(list[0], &s))
					c := harness.NewChain(0, harness.PromptTokens)
					if !slices.Equal(s.tokens, c.Tokens[:blocks*harness.BlockTokens]) || !s.root ||
						s.size != harness.BlockTokens || s.hashes[blocks-1] != uint64(harness.EngineHash(0, c, blocks-1)) {
						b.Fatal("not what was encoded")
					}
					b.ReportAllocs()
					b.SetBytes(int64(len(list[0])))
					for i := 0; b.Loop(); i++ {
						harness.Must(b, decode(list[i%payloads], &s))
					}
				})
			}
		}
	}
}

func openOurs() func([]byte, *stored) error {
	var d kvevents.Decoder
	var batch kvevents.Batch
	return func(payload []byte, s *stored) error {
		if err := d.Decode(payload, &batch); err != nil {
			return err
		}
		e := &batch.Events[0]
		s.hashes = s.hashes[:0]
		for _, h := range e.Hashes {
			s.hashes = append(s.hashes, uint64(h))
		}
		s.root, s.tokens, s.size = !e.HasParent, e.Tokens, e.BlockTokens
		return nil
	}
}

// fields fills s from the fields of a generic event, by name or by position.
func fields(event any, s *stored) error {
	var hashes, parent, tokens, size any
	switch e := event.(type) {
	case []any:
		if len(e) < 5 {
			return fmt.Errorf("event of %d fields", len(e))
		}
		hashes, parent, tokens, size = e[1], e[2], e[3], e[4]
	case map[string]any:
		hashes, parent, tokens, size = e["block_hashes"], e["parent_block_hash"], e["token_ids"], e["block_size"]
	default:
		return fmt.Errorf("event is a %T", event)
	}
	list, ok := hashes.([]any)
	ids, ok2 := tokens.([]any)
	if !ok || !ok2 {
		return fmt.Errorf("lists are a %T and a %T", hashes, tokens)
	}
	s.hashes, s.tokens = s.hashes[:0], s.tokens[:0]
	for _, h := range list {
		s.hashes = append(s.hashes, integer(h))
	}
	for _, id := range ids {
		s.tokens = append(s.tokens, uint32(integer(id)))
	}
	if s.root = parent == nil; !s.root {
		s.parent = integer(parent)
	}
	s.size = int(integer(size))
	return nil
}

func integer(v any) uint64 {
	switch n := v.(type) {
	case uint64:
		return n
	case int64:
		return uint64(n)
	case int8:
		return uint64(n)
	case uint8:
		return uint64(n)
	case int16:
		return uint64(n)
	case uint16:
		return uint64(n)
	case int32:
		return uint64(n)
	case uint32:
		return uint64(n)
	}
	return 0
}

// event returns the first event of a generic batch.
func event(batch any) (any, error) {
	if list, ok := batch.([]any); ok && len(list) > 1 {
		if events, ok := list[1].([]any); ok && len(events) > 0 {
			return events[0], nil
		}
	}
	return nil, fmt.Errorf("batch is a %T", batch)
}

func openMsgpGeneric() func([]byte, *stored) error {
	return func(payload []byte, s *stored) error {
		v, _, err := msgp.ReadIntfBytes(payload)
		if err != nil {
			return err
		}
		e, err := event(v)
		if err != nil {
			return err
		}
		return fields(e, s)
	}
}

func openVmihailencoGeneric() func([]byte, *stored) error {
	return func(payload []byte, s *stored) error {
		var v any
		if err := msgpack.Unmarshal(payload, &v); err != nil {
			return err
		}
		e, err := event(v)
		if err != nil {
			return err
		}
		return fields(e, s)
	}
}

// openMsgpTyped reads field after field, as the code that msgp generates does.
func openMsgpTyped() func([]byte, *stored) error {
	return func(b []byte, s *stored) error {
		var n uint32
		var err error
		skip := func(times int) {
			for range times {
				if err == nil {
					b, err = msgp.Skip(b)
				}
			}
		}
		list := func() (n uint32) {
			if err == nil {
				n, b, err = msgp.ReadArrayHeaderBytes(b)
			}
			return n
		}
		list()
		skip(1) // time
		list()  // events
		fields := list()
		skip(1) // tag
		s.hashes, s.tokens = s.hashes[:0], s.tokens[:0]
		for n = list(); err == nil && n > 0; n-- {
			var h uint64
			h, b, err = msgp.ReadUint64Bytes(b)
			s.hashes = append(s.hashes, h)
		}
		if s.root = msgp.IsNil(b); s.root {
			skip(1)
		} else {
			s.parent, b, err = msgp.ReadUint64Bytes(b)
		}
		for n = list(); err == nil && n > 0; n-- {
			var id uint32
			id, b, err = msgp.ReadUint32Bytes(b)
			s.tokens = append(s.tokens, id)
		}
		if err == nil {
			s.size, b, err = msgp.ReadIntBytes(b)
		}
		skip(int(fields) - 5)
		return err
	}
}

func openVmihailencoTyped() func([]byte, *stored) error {
	type envelope struct {
		Time   float64
		Events []msgpack.RawMessage
		Rank   *int
	}
	type blockStored struct {
		Tag      string
		Hashes   []uint64
		Parent   *uint64
		Tokens   []uint32
		Size     int
		LoRA     *int
		Medium   *string
		LoRAName *string
		Extras   []msgpack.RawMessage
		Group    *int
		Kind     *string
		Window   *int
	}
	var batch envelope
	var e blockStored
	return func(payload []byte, s *stored) error {
		if err := msgpack.Unmarshal(payload, &batch); err != nil {
			return err
		}
		if err := msgpack.Unmarshal(batch.Events[0], &e); err != nil {
			return err
		}
		s.hashes, s.tokens, s.size = e.Hashes, e.Tokens, e.Size
		if s.root = e.Parent == nil; !s.root {
			s.parent = *e.Parent
		}
		return nil
	}
}
