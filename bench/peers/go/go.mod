module gmp/bench/peers/go

go 1.22

require (
	github.com/panjf2000/ants/v2 v2.12.1
	golang.org/x/sync v0.11.0
)
