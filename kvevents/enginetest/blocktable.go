package enginetest

// blockTable finds cached blocks by hash. The physical copies of a hash form a
// ring through block.peer; a slot names the newest copy, whose peer is the
// oldest, so that adding is O(1) and a lookup finds the oldest, as vLLM's does.
//
// It is open addressing with linear probing over block numbers alone (4 bytes
// a slot, at most half full): with thousands of pools in one process a Go map
// would be the largest thing in it.
type blockTable struct {
	slots []int32 // block number + 1; 0 is empty
	used  int
}

// slot returns the slot of hash h, or the empty one where it would go.
func (t *blockTable) slot(blocks []block, h uint64) int {
	mask := len(t.slots) - 1
	i := int(h) & mask
	for t.slots[i] != 0 && blocks[t.slots[i]-1].hash != h {
		i = (i + 1) & mask
	}
	return i
}

// find returns the oldest copy of h, or none.
func (t *blockTable) find(blocks []block, h uint64) int32 {
	if t.used == 0 {
		return none
	}
	newest := t.slots[t.slot(blocks, h)] - 1
	if newest == none {
		return none
	}
	return blocks[newest].peer
}

// add enters block id, whose hash is set, as the newest copy of its hash.
func (t *blockTable) add(blocks []block, id int32) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow(blocks)
	}
	i := t.slot(blocks, blocks[id].hash)
	if newest := t.slots[i] - 1; newest == none {
		blocks[id].peer = id
		t.used++
	} else {
		blocks[id].peer = blocks[newest].peer
		blocks[newest].peer = id
	}
	t.slots[i] = id + 1
}

// remove takes block id out; other copies of its hash stay. The walk starts at
// the oldest copy, which under LRU is nearly always the one that goes.
func (t *blockTable) remove(blocks []block, id int32) {
	i := t.slot(blocks, blocks[id].hash)
	newest := t.slots[i] - 1
	if blocks[id].peer == id {
		t.delete(blocks, i)
		return
	}
	before := newest
	for blocks[before].peer != id {
		before = blocks[before].peer
	}
	blocks[before].peer = blocks[id].peer
	if id == newest {
		t.slots[i] = before + 1
	}
}

// delete empties slot i and moves later entries of the probe run back, so that
// no tombstones build up under constant eviction.
func (t *blockTable) delete(blocks []block, i int) {
	mask := len(t.slots) - 1
	for j := (i + 1) & mask; t.slots[j] != 0; j = (j + 1) & mask {
		home := int(blocks[t.slots[j]-1].hash) & mask
		if (j-home)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = 0
	t.used--
}

func (t *blockTable) grow(blocks []block) {
	old := t.slots
	t.slots = make([]int32, max(64, 2*len(old)))
	for _, s := range old {
		if s != 0 {
			t.slots[t.slot(blocks, blocks[s-1].hash)] = s
		}
	}
}
