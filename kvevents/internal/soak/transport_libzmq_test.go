//go:build libzmq

package soak_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/libzmq"
	"github.com/warmroute/warmroute/kvevents/zmtp"
)

// transports are those that the followers take turns with.
func transports(t *testing.T) []zmtp.Transport {
	tr, err := libzmq.New(libzmq.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return []zmtp.Transport{zmtp.Native{}, tr}
}
