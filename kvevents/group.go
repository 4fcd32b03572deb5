package kvevents

// groups remembers of an owner's attention groups what removals and placements do
// not say. Engines number groups from 0, and all keep to one configuration for life.
type groups map[int]group

type group struct {
	dense       bool
	blockTokens int // largest block announced on GPU; 0: none yet
}

// isDense reports whether blocks of a kind of attention are a dense prefix of the
// prompt: block k is of use only with all before it, and stays until it is evicted.
// The others drop blocks as the window moves.
func isDense(kind []byte) bool {
	switch string(kind) {
	case "full_attention", "mla_attention", "sink_full_attention":
		return true
	}
	return false
}

// stored reports whether the blocks of a stored event are a dense prefix, and learns
// from it.
func (g groups) stored(e *Event) bool {
	if e.SpecKind == nil {
		return g.dense(e)
	}
	dense := isDense(e.SpecKind)
	if k, ok := g[e.Group]; e.HasGroup && (!ok || k.dense != dense) {
		k.dense = dense
		g[e.Group] = k
	}
	return dense
}

// dense is stored for events that do not name the kind. Those that name no group are
// of versions and engines that have one only. A group that was never described is
// taken for dense if it is the first: versions that did not name kinds had no other.
func (g groups) dense(e *Event) bool {
	if !e.HasGroup {
		return true
	}
	if k, ok := g[e.Group]; ok {
		return k.dense
	}
	return e.Group == 0
}

// finer reports whether blocks of n tokens are smaller than the group's usual ones,
// and learns n if they are larger and onGPU.
func (g groups) finer(id, n int, onGPU bool) bool {
	k := g[id]
	if onGPU && n > k.blockTokens {
		g[id] = group{dense: true, blockTokens: n}
		return false
	}
	return n < k.blockTokens
}
