package kvevents

import (
	"strconv"

	"github.com/warmroute/warmroute/prefixindex"
)

// maxNames bounds the names that an Applier keeps; past it all are forgotten, which
// costs an allocation for each that comes again.
const maxNames = 4096

// names turns bytes of payloads into strings, allocating once for each.
type names map[string]string

func (n names) of(b []byte) string {
	if s, ok := n[string(b)]; ok {
		return s
	}
	if len(n) >= maxNames {
		clear(n)
	}
	s := string(b)
	n[s] = s
	return s
}

// adapter returns the identity of the event's LoRA adapter. Its number is one that
// the engine's process made up, so it gets a name that no prompt has by chance.
func (n names) adapter(e *Event) string {
	switch {
	case len(e.LoRAName) > 0:
		return n.of(e.LoRAName)
	case e.HasLoRAID:
		var b [32]byte
		return n.of(strconv.AppendInt(append(b[:0], "lora-id:"...), e.LoRAID, 10))
	}
	return ""
}

// scope returns the scope of an event that begins a prompt. salt is the one that its
// extras name, if any.
func (a *Applier) scope(e *Event, salt []byte) prefixindex.Scope {
	s := prefixindex.Scope{Model: a.o.Model, Adapter: a.names.adapter(e)}
	if e.Salt != nil {
		salt = e.Salt
	}
	if len(salt) > 0 {
		s.Salt = a.names.of(salt)
	}
	return s
}
