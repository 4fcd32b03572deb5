package kvevents

import (
	"bytes"
	"slices"

	"github.com/warmroute/warmroute/prefixindex"
)

// maxTails bounds the blocks of which an owner remembers which bare strings they
// listed, and maxBare how many such strings a block may list, which is far more than
// images fit into one.
const (
	maxTails = 1 << 14
	maxBare  = 64
)

// handle is an engine block within an owner.
type handle struct {
	group int
	hash  prefixindex.EngineHash
}

// extras finds what begins in the blocks of a stored event, and the salt if the
// event begins a prompt and names one. Engines list an item in every block that it
// touches; for the index it belongs to the block in which it begins. What that is
// follows from the item's offset, which vLLM sends since items have them. Before, an
// item was a bare string like adapters and salts, and began in the first block that
// listed it. A false result means that what the blocks depend on cannot be told: they
// must not be taken for blocks of text.
func (a *Applier) extras(o *owner, e *Event) (list []prefixindex.Extra, salt []byte, ok bool) {
	if e.Opaque {
		return nil, nil, false
	}
	if len(e.Extras) == 0 {
		return nil, nil, true
	}
	for i := range e.Extras {
		if e.Extras[i].Shape == ExtraItem {
			o.offsets = true
		}
	}
	offsets := e.Named || o.offsets
	list = a.list[:0]
	before := o.tails[handle{e.Group, e.Parent}] // bare strings of the block before
	if !e.HasParent {
		before = nil
	}
	at := 0 // place of the block before in e.Hashes, plus one
	for i := 0; i < len(e.Extras); {
		block := e.Extras[i].Block
		if block > at {
			before = nil // a block that listed nothing came between
		}
		at = block + 1
		start := block * e.BlockTokens
		var bare []string
		adapter := e.LoRAName
		for ; i < len(e.Extras) && e.Extras[i].Block == block; i++ {
			x := &e.Extras[i]
			switch {
			case x.Shape == ExtraItem:
				if x.Offset >= e.BlockTokens {
					continue // of the block after, which lists it too
				}
				if x.Offset < 0 {
					if !e.HasParent && start+x.Offset < 0 {
						return nil, nil, false // begins before the prompt does
					}
					continue // of an earlier block
				}
				begins := start + x.Offset
				list = append(list, prefixindex.Extra{At: begins, Kind: prefixindex.ExtraMedia, ID: a.names.of(x.ID)})
			case x.Shape == ExtraDigest:
				list = append(list, prefixindex.Extra{At: start, Kind: prefixindex.ExtraEmbeds, ID: a.names.of(x.ID)})
			case x.Shape != ExtraString:
				return nil, nil, false
			case len(adapter) > 0 && bytes.Equal(x.ID, adapter):
				adapter = nil // once; a salt of the same name is listed for a second time
			case !e.HasParent && block == 0 && (offsets || !isDigest(x.ID)):
				if salt != nil {
					return nil, nil, false
				}
				salt = x.ID
			case offsets, len(bare) == maxBare:
				return nil, nil, false // neither adapter, nor salt, nor item
			default:
				id := a.names.of(x.ID)
				bare = append(bare, id)
				if !slices.Contains(before, id) {
					list = append(list, prefixindex.Extra{At: start, Kind: prefixindex.ExtraMedia, ID: id})
				}
			}
		}
		if bare != nil {
			a.stats.GuessedExtras++
			if len(o.tails) >= maxTails {
				clear(o.tails) // costs hits of images that go on, never a wrong one
			}
			o.tails[handle{e.Group, e.Hashes[block]}] = bare
		}
		before = bare
	}
	slices.SortStableFunc(list, func(x, y prefixindex.Extra) int { return x.At - y.At })
	a.list = list
	return list, salt, true
}

// areListed reports whether each of list is of one of n blocks, in their order.
func areListed(list []Extra, n int) bool {
	at := 0
	for i := range list {
		if list[i].Block < at || list[i].Block >= n {
			return false
		}
		at = list[i].Block
	}
	return true
}

// isDigest reports whether id looks like a digest that an engine names an item by.
func isDigest(id []byte) bool {
	if len(id) != 64 {
		return false
	}
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
