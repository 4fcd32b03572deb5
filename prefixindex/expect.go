package prefixindex

import "time"

type expected struct{}

func (c *contents) dropExpected(n uint32)        {}
func (c *contents) expireExpected(now time.Time) {}
func (c *contents) expectedDue() int64           { return never }
