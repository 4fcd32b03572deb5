package kvevents

import "math"

// PayloadRank returns the data-parallel rank that a payload names, without decoding
// its events, and false if it names none or is no batch.
//
// O(payload), no allocation.
func PayloadRank(payload []byte) (int, bool) {
	r := reader{b: payload}
	if n, ok := r.array(); ok {
		if n <= slotRank || !r.skip() || !r.skip() {
			return 0, false
		}
		return r.rank()
	}
	r.i = 0
	n, _ := r.dict()
	for range n {
		key, ok := r.str()
		if !ok {
			return 0, false
		}
		if isRankKey(key) {
			return r.rank()
		}
		if !r.skip() {
			return 0, false
		}
	}
	return 0, false
}

// rank reads a rank. Anything else stays where it is.
func (r *reader) rank() (int, bool) {
	at := r.i
	rank, ok := r.int(0, math.MaxInt32)
	if !ok {
		r.i = at
	}
	return int(rank), ok
}

// isRankKey reports whether key is a name of the rank in a batch that is a map.
func isRankKey(key []byte) bool {
	switch string(key) {
	case "data_parallel_rank", "attn_dp_rank", "dp_rank":
		return true
	}
	return false
}
