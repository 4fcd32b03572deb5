package prefixindex

import "time"

type expected struct{}

func (c *contents) dropExpected(n uint32)        {}
func (c *contents) expireExpected(now time.Time) {}
func (c *contents) expectedDue() int64           { return never }

func (x *expected) renumber(to []uint32) {}
func (x *expected) bytes() int           { return 0 }
