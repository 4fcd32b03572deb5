// Package trace reads and makes workloads in the form of Mooncake's request traces: of a
// prompt they tell the length and a number for each 512 tokens. Equal numbers at the start
// of two prompts mean an equal beginning; the tokens themselves are made from the numbers.
package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// IDTokens is how many tokens of a prompt one of its numbers stands for.
const IDTokens = 512

// Vocabulary is above every token but a prompt's first.
const Vocabulary = 1 << 17

// ErrTrace is what Read finds wrong with a line, which it names.
var ErrTrace = errors.New("trace: not a request")

// Request is a line of a trace.
type Request struct {
	At     time.Duration // since the start
	Input  int           // tokens of the prompt
	Output int           // tokens of the answer
	IDs    []uint64      // one for every IDTokens of the prompt, the last one of fewer perhaps
}

// ReadFile is Read of a file, which must have a request.
func ReadFile(name string) ([]Request, error) {
	f, err := os.Open(name) //nolint:gosec // whoever runs the program names it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := Read(f)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: the file is empty", ErrTrace)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// Read reads one JSON object a line: timestamp (milliseconds), input_length, output_length
// and hash_ids. Other fields are skipped.
func Read(r io.Reader) ([]Request, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var list []Request
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line struct {
			Timestamp    float64  `json:"timestamp"`
			InputLength  int      `json:"input_length"`
			OutputLength int      `json:"output_length"`
			HashIDs      []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTrace, n, err)
		}
		if want := (line.InputLength + IDTokens - 1) / IDTokens; line.InputLength < 1 ||
			line.OutputLength < 0 || len(line.HashIDs) != want {
			return nil, fmt.Errorf("%w: line %d: input_length %d, output_length %d, %d hash_ids, want %d",
				ErrTrace, n, line.InputLength, line.OutputLength, len(line.HashIDs), want)
		}
		list = append(list, Request{
			At:     time.Duration(line.Timestamp * float64(time.Millisecond)),
			Input:  line.InputLength,
			Output: line.OutputLength,
			IDs:    line.HashIDs,
		})
	}
	return list, lines.Err()
}

// Sessions makes n requests of agent sessions: a dozen kinds of agents with a system prompt
// each of 3,000 to 9,000 tokens, sessions of 1 to 20 turns a few seconds apart, of which
// each adds 100 to 3,000 tokens to the prompt. Seeds give different sessions, and n a
// beginning of the same ones.
func Sessions(seed uint64, n int) []Request {
	const kinds, live = 12, 64 // kinds of agents; sessions at a time
	rng := rand.New(rand.NewPCG(seed, 1))
	next := uint64(0)
	grow := func(ids []uint64, tokens int) []uint64 {
		for len(ids) < (tokens+IDTokens-1)/IDTokens {
			next++
			ids = append(ids, next)
		}
		return ids
	}
	type session struct {
		ids    []uint64
		tokens int
		turns  int
	}
	systems := make([]session, kinds)
	for i := range systems {
		systems[i].tokens = (6 + rng.IntN(12)) * IDTokens
		systems[i].ids = grow(nil, systems[i].tokens)
	}
	sessions := make([]session, live)
	list := make([]Request, 0, n)
	var at time.Duration
	for len(list) < n {
		s := &sessions[rng.IntN(live)]
		if s.turns == 0 {
			*s = systems[rng.IntN(kinds)]
			s.turns = 1 + rng.IntN(20)
		}
		s.turns--
		s.tokens += 100 + rng.IntN(2_900)
		s.ids = grow(slices.Clone(s.ids), s.tokens)
		output := 16 + rng.IntN(500)
		list = append(list, Request{At: at, Input: s.tokens, Output: output, IDs: s.ids})
		s.ids = s.ids[:s.tokens/IDTokens] // the rest of the last number's tokens will be others
		s.tokens += output
		at += time.Duration(rng.ExpFloat64() * float64(100*time.Millisecond))
	}
	return list
}

// Repeat returns list as often as it takes to have n requests, each time with numbers that
// did not occur before and later by the length of the trace.
func Repeat(list []Request, n int) []Request {
	if len(list) == 0 {
		return nil
	}
	shift := uint64(0)
	for _, r := range list {
		shift = max(shift, slices.Max(r.IDs)+1)
	}
	all := make([]Request, 0, n)
	for i := range n {
		r := list[i%len(list)]
		if times := uint64(i / len(list)); times > 0 {
			r.IDs = slices.Clone(r.IDs)
			for j := range r.IDs {
				r.IDs[j] += times * shift
			}
			r.At += time.Duration(times) * list[len(list)-1].At
		}
		all = append(all, r)
	}
	return all
}

// Tokens makes the prompt. Its first token, and no other, is Vocabulary, so that whoever
// changes it has another prompt from the first block on, and one with the same sharing.
func (r *Request) Tokens() []uint32 {
	tokens := make([]uint32, r.Input)
	for i := range tokens {
		tokens[i] = uint32(Mix(r.IDs[i/IDTokens]<<9+uint64(i%IDTokens)) % Vocabulary)
	}
	tokens[0] = Vocabulary
	return tokens
}

// Mix spreads x over 64 bits, one to one: the last steps of SplitMix64 (Steele, Lea, Flood
// 2014).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
