package kvevents_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents"
	"github.com/warmroute/warmroute/prefixindex"
)

// captured is a file that released engines wrote. testdata/README.md says how.
type captured struct {
	File    string          `json:"file"`
	SHA256  string          `json:"sha256"`
	Decoded json.RawMessage `json:"decoded"`
}

func manifest(t testing.TB) []captured {
	t.Helper()
	var m struct {
		Files []captured `json:"files"`
	}
	b, err := os.ReadFile("testdata/manifest.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &m))
	require.Greater(t, len(m.Files), 900)
	return m.Files
}

func capturedFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
	require.NoError(t, err)
	return b
}

// The files are the ones that were captured, and no others.
func TestCapturedFiles(t *testing.T) {
	known := map[string]bool{}
	for _, f := range manifest(t) {
		known[f.File] = true
		sum := sha256.Sum256(capturedFile(t, f.File))
		require.Equal(t, f.SHA256, hex.EncodeToString(sum[:]), f.File)
	}
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		name, _ := filepath.Rel("testdata", path)
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir(), name == "README.md", name == "manifest.json":
		case strings.HasPrefix(name, "capture/"), strings.HasPrefix(name, "fuzz/"):
		default:
			require.True(t, known[name], "%s is not in the manifest", name)
		}
		return nil
	})
	require.NoError(t, err)
}

// What was captured decodes to what the engines' own encoder was given.
func TestCapturedPayloads(t *testing.T) {
	kinds := map[string]int{}
	for _, f := range manifest(t) {
		if !strings.HasSuffix(f.File, ".msgpack") {
			continue
		}
		var want []any
		d := json.NewDecoder(strings.NewReader(string(f.Decoded)))
		d.UseNumber()
		require.NoError(t, d.Decode(&want), f.File)
		b := decode(t, kvevents.Decoder{}, capturedFile(t, f.File))
		require.Zero(t, b.Malformed, f.File)
		require.Zero(t, b.Unknown, f.File)
		require.Zero(t, b.UnknownFields, f.File)
		require.Equal(t, int64(1750000000_500), b.Time.UnixMilli(), f.File)
		require.Equal(t, len(want) > 2 && want[2] != nil, b.HasRank, f.File)
		if b.HasRank {
			require.EqualValues(t, number(want[2]), b.Rank, f.File)
		}
		events := want[1].([]any)
		require.Len(t, b.Events, len(events), f.File)
		for i, e := range events {
			require.Equal(t, expected(e), b.Events[i], "%s, event %d", f.File, i)
			kinds[fmt.Sprint(b.Events[i].Kind, b.Events[i].Named)]++
		}
	}
	require.Len(t, kinds, 6, "each kind in both forms")
}

func number(v any) uint64 {
	s := fmt.Sprint(v)
	if strings.HasPrefix(s, "-") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			panic(err)
		}
		return uint64(n)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// slots are the fields of positional events, as the engines' sources name them.
var slots = map[string][]string{
	"BlockStored": {
		"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
		"extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
	},
	"BlockRemoved": {"block_hashes", "medium", "group_idx"},
}

// expected makes the Event of what the manifest says, field by field.
func expected(v any) kvevents.Event {
	fields := map[string]any{}
	var e kvevents.Event
	tag := ""
	switch v := v.(type) {
	case []any:
		tag = v[0].(string)
		for i, x := range v[1:] {
			fields[slots[tag][i]] = x
		}
	case map[string]any:
		tag = v["type"].(string)
		fields = v
		e.Named = true
	}
	text := func(key string) []byte {
		if s, ok := fields[key].(string); ok {
			return []byte(s)
		}
		return nil
	}
	e.Kind = map[string]kvevents.Kind{"BlockStored": kvevents.Stored, "BlockRemoved": kvevents.Removed, "AllBlocksCleared": kvevents.Cleared}[tag]
	if list, ok := fields["block_hashes"].([]any); ok {
		for _, h := range list {
			e.Hashes = append(e.Hashes, engineHash(h))
		}
	}
	if p := fields["parent_block_hash"]; p != nil {
		e.Parent, e.HasParent = engineHash(p), true
	}
	if list, ok := fields["token_ids"].([]any); ok {
		for _, id := range list {
			if cell, ok := id.([]any); ok {
				id = cell[0]
			}
			e.Tokens = append(e.Tokens, uint32(number(id)))
		}
	}
	if n := fields["block_size"]; n != nil {
		e.BlockTokens = int(number(n))
	}
	if n := fields["lora_id"]; n != nil {
		e.LoRAID, e.HasLoRAID = int64(number(n)), true
	}
	if n := fields["group_idx"]; n != nil {
		e.Group, e.HasGroup = int(number(n)), true
	}
	if n := fields["kv_cache_spec_sliding_window"]; n != nil {
		e.Window = int(number(n))
	}
	e.Medium, e.SpecKind = text("medium"), text("kv_cache_spec_kind")
	e.Locality, e.Ownership, e.Salt = text("locality"), text("ownership"), text("cache_salt")
	switch name := fields["lora_name"].(type) {
	case string:
		e.LoRAName = []byte(name)
	case map[string]any:
		e.Salt = []byte(name["cache_salt"].(string))
	}
	lists, ok := fields["extra_keys"].([]any)
	e.HasExtras = ok
	for block, l := range lists {
		l, _ := l.([]any)
		for _, x := range l {
			extra := kvevents.Extra{Block: block}
			switch x := x.(type) {
			case string:
				extra.ID = []byte(x)
				if digest, ok := strings.CutPrefix(x, "hex:"); ok {
					extra.Shape, extra.ID = kvevents.ExtraDigest, unhex(digest)
				}
			case []any:
				extra.Shape, extra.ID, extra.HasOffset = kvevents.ExtraItem, []byte(x[0].(string)), true
				extra.Offset = int(int64(number(x[1])))
			}
			e.Extras = append(e.Extras, extra)
		}
	}
	return e
}

func engineHash(v any) prefixindex.EngineHash {
	if s, ok := v.(string); ok {
		if digest, ok := strings.CutPrefix(s, "hex:"); ok {
			b := unhex(digest)
			return prefixindex.EngineHash(binary.BigEndian.Uint64(b[len(b)-8:]))
		}
	}
	return prefixindex.EngineHash(number(v))
}

// exchange is a request and what came back, in hex.
type exchange struct {
	Sent     []string   `json:"sent"`
	Received [][]string `json:"received"`
}

// Frames of live messages and of replays, as sockets saw them.
func TestCapturedReplays(t *testing.T) {
	layouts := map[int]int{}
	for _, f := range manifest(t) {
		if !strings.HasPrefix(f.File, "replay/") || !strings.HasSuffix(f.File, ".json") {
			continue
		}
		var exchanges []struct {
			Topic    string     `json:"topic"`
			FirstSeq uint64     `json:"first_seq"`
			Live     [][]string `json:"live"`
			Dealer   exchange   `json:"dealer"`
			Past     exchange   `json:"dealer_past_the_end"`
		}
		if json.Unmarshal(capturedFile(t, f.File), &exchanges) != nil {
			continue // counts of what replays lost
		}
		for _, x := range exchanges {
			if len(x.Live) == 0 {
				continue
			}
			require.Equal(t, [][]byte{{}, kvevents.ReplayRequest(x.FirstSeq)[1]}, parts(x.Dealer.Sent), f.File)
			var live []kvevents.Frame
			for i, m := range x.Live {
				frame, err := kvevents.ParseMessage(parts(m))
				require.NoError(t, err, f.File)
				require.Equal(t, x.Topic, frame.Topic)
				require.Equal(t, x.FirstSeq+uint64(i), frame.Seq)
				live = append(live, frame)
			}
			for i, m := range x.Dealer.Received {
				frame, end, err := kvevents.ParseReplay(parts(m))
				require.NoError(t, err, f.File)
				require.Equal(t, i == len(live), end, f.File)
				layouts[len(m)]++
				if !end {
					require.Equal(t, live[i].Seq, frame.Seq)
					require.Equal(t, live[i].Payload, frame.Payload)
				}
			}
			require.Len(t, x.Past.Received, 1)
			_, end, err := kvevents.ParseReplay(parts(x.Past.Received[0]))
			require.NoError(t, err)
			require.True(t, end)
		}
	}
	require.Len(t, layouts, 2, "both layouts of replays")
}

func parts(hexes []string) [][]byte {
	list := make([][]byte, len(hexes))
	for i, h := range hexes {
		list[i] = unhex(h)
	}
	return list
}

// step is one step of a workload that an engine's own cache went through.
type step struct {
	BlockSize int               `json:"block_size"` // of the first line
	Step      int               `json:"step"`
	Payload   string            `json:"payload"`
	Resident  []json.RawMessage `json:"resident"`
	Probes    []struct {
		Tokens []uint32 `json:"tokens"`
		Hit    int      `json:"hit"`
	} `json:"probes"`
}

// After each step of a random workload the index answers as the engine's cache does.
func TestCapturedChains(t *testing.T) {
	files, err := filepath.Glob("testdata/chains/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			ix, err := prefixindex.New(prefixindex.Options{BlockTokens: 4, Copies: 255})
			require.NoError(t, err)
			ep, err := ix.Join("a")
			require.NoError(t, err)
			applier, err := kvevents.NewApplier(kvevents.ApplierOptions{Index: ix, Endpoint: ep, Model: "m"})
			require.NoError(t, err)
			var batch kvevents.Batch
			var head step
			probes, over, under, hits := 0, 0, 0, 0
			var resident []residentBlock
			// Older releases of vLLM do not tell salted blocks from others, so that some of
			// theirs are one block here, and before 0.20 groups neither; older ones of SGLang
			// announce incomplete pages.
			exact := slices.Contains([]string{
				"chain-vllm-0.23.0", "chain-vllm-0.23.0-bytes", "chain-vllm-0.33.0", "chain-vllm-0.33.0-two-groups", "chain-sglang-0.5.23",
			}, name)
			err = eachStep(file, func(s step) {
				if s.BlockSize > 0 {
					head = s
					return
				}
				if s.Payload != "" {
					require.NoError(t, new(kvevents.Decoder).Decode(unhex(s.Payload), &batch))
					require.NoError(t, applier.Apply(&batch))
				}
				for _, p := range s.Probes {
					held := heldBy(ix, ep, base, p.Tokens).GPU
					// Engines compute the last token of a prompt in any case.
					got := min(held, (len(p.Tokens)-1)/head.BlockSize*head.BlockSize)
					probes++
					hits += p.Hit
					if got > p.Hit {
						over++
					} else if got < p.Hit {
						under++
					}
				}
				resident = dense(t, s.Resident)
				copies := 0
				for _, r := range resident {
					copies += r.copies
				}
				if exact {
					require.Equal(t, len(resident), applier.Stats().Blocks.Blocks, "step %d", s.Step)
				}
				if b := applier.Stats().Blocks; exact && b.Clears == 0 {
					require.EqualValues(t, copies, b.Stored+b.Copies-b.Removed, "step %d", s.Step)
				}
			})
			require.NoError(t, err)
			require.Positive(t, hits)
			st := applier.Stats()
			require.Zero(t, st.Malformed+st.Unknown+st.SkippedSize+st.SkippedExtras+st.SkippedTier)
			require.True(t, strings.Contains(name, "sglang-0.5.6") || under == 0, "%d of %d probes", under, probes)
			switch name {
			case "chain-sglang-0.5.6":
				// It announces the removal of blocks that it keeps.
				require.Zero(t, over)
			case "chain-vllm-0.11.0-two-groups", "chain-vllm-0.33.0-two-groups":
				// A hit needs the window's blocks too, which are not looked at: the answer is
				// an upper bound.
			case "chain-vllm-0.9.0", "chain-vllm-0.11.0":
				// They do not tell that blocks are salted.
				require.Less(t, over, probes/10)
			default:
				require.Zero(t, over, "of %d probes", probes)
				require.Zero(t, st.Blocks.RemovedUnknown+st.Blocks.Conflicts)
				require.Zero(t, st.Blocks.Orphans)
			}
			if exact {
				// What is held is what the engine holds, copy by copy: it can be taken away again.
				var all kvevents.Batch
				for _, r := range resident {
					for range r.copies {
						all.Events = append(all.Events, kvevents.Event{Kind: kvevents.Removed, Hashes: []prefixindex.EngineHash{r.hash}})
					}
				}
				require.NoError(t, applier.Apply(&all))
				require.Zero(t, applier.Stats().Blocks.RemovedUnknown)
				require.Zero(t, applier.Stats().Blocks.Blocks)
			}
			t.Logf("%d probes, %d answered with more, %d with less", probes, over, under)
		})
	}
}

// residentBlock is a block in an engine's cache.
type residentBlock struct {
	hash   prefixindex.EngineHash
	copies int
}

// dense returns the blocks of the first attention group: SGLang has only one, and lists
// hashes; vLLM lists group, hash and number of copies.
func dense(t *testing.T, list []json.RawMessage) []residentBlock {
	var blocks []residentBlock
	for _, raw := range list {
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		var v any
		require.NoError(t, d.Decode(&v))
		r, ok := v.([]any)
		if !ok {
			r = []any{0, v, 1}
		}
		if number(r[0]) == 0 {
			blocks = append(blocks, residentBlock{engineHash(r[1]), int(number(r[2]))})
		}
	}
	return blocks
}

func eachStep(file string, yield func(step)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return err
		}
		yield(s)
	}
	return lines.Err()
}

// Captured payloads cut anywhere are no batch.
func TestCapturedPayloadsCut(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range manifest(t) {
		if !strings.HasSuffix(f.File, ".msgpack") || seen[f.SHA256] {
			continue
		}
		seen[f.SHA256] = true
		whole := capturedFile(t, f.File)
		var b kvevents.Batch
		for n := range whole {
			require.ErrorIs(t, new(kvevents.Decoder).Decode(slices.Clone(whole[:n]), &b), kvevents.ErrPayload, "%s cut to %d", f.File, n)
		}
	}
}

// SGLang 0.5.5 announces a page from the middle of a prompt as if it began one. The
// option credits nothing of it.
func TestPagesWithoutAPlace(t *testing.T) {
	f := newFixture(t)
	f.payload(capturedFile(t, "sglang-0.5.5/stored-child.msgpack"))
	tokens := f.batch.Events[len(f.batch.Events)-1].Tokens
	require.Equal(t, 4, f.gpu(tokens[:4]), "which no prompt of its engine began with")

	f = newFixture(t)
	f.decoder.ContentHashes = true
	f.payload(capturedFile(t, "sglang-0.5.5/stored-child.msgpack"))
	require.Zero(t, f.gpu(tokens[:4]))
	require.Positive(t, f.applier.Stats().SkippedPlace)
	require.Zero(t, f.applier.Stats().Stored+f.applier.Stats().Malformed)
}
