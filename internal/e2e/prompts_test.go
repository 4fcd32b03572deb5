//go:build e2e

package e2e_test

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// prompt is one of tokens, text and chat, sent as that. tokens are set in any case
// once it has been sent.
type prompt struct {
	kind      string
	tokens    []uint32
	text      string
	chat      []message
	salt      string
	maxTokens int

	conversation int // of chat
}

const vocabulary = 512 // of model.py

// prompts makes prompts that share prefixes in the ways that those of an application
// do, and in those that are off by one.
type prompts struct {
	rng     *rand.Rand
	trunks  [][]uint32
	texts   []string
	chats   [][]message
	sent    []*prompt // of tokens
	answers []*answer // to those
}

func newPrompts(seed uint64) *prompts {
	g := &prompts{rng: rand.New(rand.NewPCG(seed, 0))}
	for _, n := range []int{64, 96, 200, 333, 512, 800} {
		g.trunks = append(g.trunks, g.tokens(n))
	}
	for _, n := range []int{40, 90, 150} {
		g.texts = append(g.texts, g.words(n))
	}
	g.chats = make([][]message, 4)
	for i := range g.chats {
		g.chats[i] = []message{{Role: "system", Content: g.texts[i%2]}}
	}
	return g
}

func (g *prompts) tokens(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(3 + g.rng.IntN(vocabulary-3))
	}
	return list
}

func (g *prompts) words(n int) string {
	known := strings.Fields("the quick brown fox jumps over a lazy dog, naïve café 猫 and 42 of 1,000 blocks\n route it!")
	list := make([]string, n)
	for i := range list {
		list[i] = known[g.rng.IntN(len(known))]
	}
	return strings.Join(list, " ")
}

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// recent draws one of what was sent last: of what was sent long ago, nothing is cached.
func (g *prompts) recent() int { return len(g.sent) - 1 - g.rng.IntN(min(len(g.sent), 12)) }

// next returns another prompt. What it continues, it continues with what done has said.
func (g *prompts) next() *prompt {
	p := &prompt{maxTokens: 1 + g.rng.IntN(40)}
	trunk := pick(g.rng, g.trunks)
	with := func(head []uint32, tail int) []uint32 {
		return append(append([]uint32{}, head...), g.tokens(tail)...)
	}
	kind := g.rng.IntN(20)
	if kind >= 8 && kind < 13 && len(g.sent) == 0 {
		kind = 0
	}
	switch kind {
	case 0, 1:
		p.kind, p.tokens = "new", g.tokens(1+g.rng.IntN(600))
	case 2:
		p.kind, p.tokens = "shorter than a block", g.tokens(1+g.rng.IntN(31))
	case 3, 4, 5, 6:
		p.kind, p.tokens = "shared head", with(trunk, 1+g.rng.IntN(200))
	case 7: // full blocks of either engine, of which the last is always computed again
		p.kind, p.tokens = "head of full blocks", with(trunk, 0)[:len(trunk)/64*64]
	case 8, 9:
		p.kind, p.tokens = "again", with(g.sent[g.recent()].tokens, 0)
	case 10: // parts inside a block, or one token before or after its end
		old := g.sent[g.recent()].tokens
		cut := min((1+g.rng.IntN(len(old)/32+1))*32+g.rng.IntN(3)-1, len(old))
		p.kind, p.tokens = "parts at a border", with(old[:cut], 65)
	case 11, 12: // with what the engine answered, which it has cached as well
		i := g.recent()
		p.kind = "continued"
		p.tokens = with(append(with(g.sent[i].tokens, 0), g.answers[i].output...), g.rng.IntN(50))
	case 13, 14:
		p.kind, p.tokens, p.salt = "salted", with(g.trunks[2+g.rng.IntN(2)], 1+g.rng.IntN(40)), pick(g.rng, []string{"a", "b"})
	case 15, 16, 17:
		p.kind, p.text = "text", pick(g.rng, g.texts)+" "+g.words(1+g.rng.IntN(30))
	default:
		i := g.rng.IntN(len(g.chats))
		g.chats[i] = append(g.chats[i], message{Role: "user", Content: g.words(3 + g.rng.IntN(20))})
		p.kind, p.chat, p.conversation = "chat", g.chats[i], i
	}
	const most = 3000 // leaves room for the answer in the engine's 4096
	p.tokens = p.tokens[:min(len(p.tokens), most)]
	return p
}

// done says what became of p.
func (g *prompts) done(p *prompt, a *answer) {
	switch {
	case p.chat != nil:
		chat := slices.Concat(p.chat, []message{{Role: "assistant", Content: a.text}})
		if len(p.tokens) > 2000 {
			chat = chat[:1]
		}
		g.chats[p.conversation] = chat
	case p.text == "" && p.salt == "":
		g.sent, g.answers = append(g.sent, p), append(g.answers, a)
	}
}
