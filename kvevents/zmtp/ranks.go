package zmtp

import (
	"errors"
	"fmt"
)

// RankAddresses is where one data-parallel rank of an engine publishes.
type RankAddresses struct {
	Rank          int
	Address       string // of its PUB socket
	ReplayAddress string // of its ROUTER socket; "": none
	Topic         string
	BlockTokens   int // tokens in a block; 0: not said
}

// maxRanks bounds what a discovery answer can make us open.
const maxRanks = 4096

// Ranks returns the addresses of n ranks from the one that first names, given those of
// rank 0: first.Rank of 8 and n of 8 is the second node of two. Each rank's ports are
// those of rank 0 plus its number. An error, which wraps ErrAddress, names the rank
// whose port is past 65535, or the two ranks of which one would publish where the other
// replays: then the two ports must be further apart.
//
// O(n). Safe for concurrent use.
func Ranks(first RankAddresses, n int) ([]RankAddresses, error) {
	if n < 1 || n > maxRanks || first.Rank < 0 {
		return nil, fmt.Errorf("%w %q: %d ranks from %d, want 1 to %d from 0 or more",
			ErrAddress, first.Address, n, first.Rank, maxRanks)
	}
	ranks := make([]RankAddresses, n)
	publishes := make(map[string]int, n)
	for i := range ranks {
		r := first
		r.Rank = first.Rank + i
		var err error
		if r.Address, err = RankAddress(first.Address, r.Rank); err == nil && first.ReplayAddress != "" {
			r.ReplayAddress, err = RankAddress(first.ReplayAddress, r.Rank)
		}
		if err != nil {
			return nil, err
		}
		ranks[i] = r
		publishes[portOf(r.Address)] = r.Rank
	}
	for _, r := range ranks {
		if other, clash := publishes[portOf(r.ReplayAddress)]; clash && r.ReplayAddress != "" {
			return nil, fmt.Errorf("%w %q: rank %d would replay where rank %d publishes; want ports %d or more apart",
				ErrAddress, r.ReplayAddress, r.Rank, other, n)
		}
	}
	return ranks, nil
}

// portOf is what two sockets of one machine cannot both bind.
func portOf(address string) string {
	e, err := parseAddress(address)
	if err != nil {
		return ""
	}
	if e.network == "tcp" {
		e.host = ""
	}
	return e.String()
}

// errNoAddress is what discovery cannot go on from.
var errNoAddress = errors.New("no host to put in its place")

// on returns an address that an engine said it is bound to as one to dial: for every
// interface it puts host.
func on(host, address string) (string, error) {
	e, err := parseAddress(address)
	if err != nil {
		return "", err
	}
	if e.wildcard() {
		if host == "" {
			return "", fmt.Errorf("%w %q: %w", ErrAddress, address, errNoAddress)
		}
		e.host = host
	}
	if err := e.checkDial(); err != nil {
		return "", err
	}
	return e.String(), nil
}
