module github.com/warmroute/warmroute

go 1.25
