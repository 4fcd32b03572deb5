//go:build !libzmq

package soak_test

import (
	"testing"

	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// transports are those that the followers take turns with.
func transports(*testing.T) []zmtp.Transport { return []zmtp.Transport{zmtp.Native{}} }
