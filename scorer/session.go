package scorer

import "github.com/cespare/xxhash/v2"

// Session keeps a conversation where it was, without a table: each candidate has a
// number of its own for each session (rendezvous hashing, Thaler and Ravishankar 1996):
//
//	n     = mix(XXH64(session) xor XXH64(name)*0x9e3779b97f4a7c15)
//	score = 1 for the largest n, 0.5 for the next, 0 for the others
//
// Routers that share nothing agree on them, as long as they use the same
// names and offer the same candidates; if one goes, only its sessions move, each to its
// second.
//
// The name is that of the endpoint in the index. Candidates without one go by their
// handle, which other routers do not share. A request without a session: 1 for all.
type Session struct{}

// Score implements Scorer. O(bytes of the session and the names), no allocation.
func (s Session) Score(in *Input, out []float64) {
	if in.Request == nil || in.Request.Session == "" {
		for i := range out {
			out[i] = 1
		}
		return
	}
	session := xxhash.Sum64String(in.Request.Session)
	first, second := -1, -1
	var most, next uint64
	for i := range in.Candidates {
		c := &in.Candidates[i]
		out[i] = 0
		if !c.Eligible {
			continue
		}
		n := uint64(c.Endpoint)
		if c.Name != "" {
			n = xxhash.Sum64String(c.Name)
		}
		switch n = rendezvous(session, n); {
		case first < 0 || n > most:
			second, next = first, most
			first, most = i, n
		case second < 0 || n > next:
			second, next = i, n
		}
	}
	if first >= 0 {
		out[first] = 1
	}
	if second >= 0 {
		out[second] = 0.5
	}
}

// rendezvous mixes two hashes so that every bit of each matters. (The finaliser of
// SplitMix64, Steele, Lea, Flood 2014.)
func rendezvous(session, endpoint uint64) uint64 {
	x := session ^ endpoint*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
